// From JSON to nodes, and from the text of attributes to numbers.
#include "model/mxnet/symbol.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/json_fields.h"
#include "base/json_text.h"

namespace ebbtide::model::mxnet {
namespace {

constexpr std::int64_t kMostNumber = 1'000'000'000;
constexpr std::size_t kMostShown = 60;

using Field = JsonFields::Field;
constexpr std::array kTop = {Field{"nodes", true}, Field{"arg_nodes"}, Field{"node_row_ptr"},
                             Field{"heads", true}, Field{"attrs"},     Field{"attr"}};
constexpr std::array kNode = {Field{"op", true},           Field{"name", true},  Field{"attrs"},
                              Field{"inputs", true},       Field{"attr"},        Field{"param"},
                              Field{"backward_source_id"}, Field{"control_deps"}};

void SkipNumbers(JsonReader& in) {
  in.BeginList("a list of numbers");
  while (in.NextItem()) in.Integer();
}

// {"mxnet_version": ["int", 10901]}
void SkipVersion(JsonReader& in) {
  in.BeginObject();
  while (in.NextKey()) {
    in.BeginList();
    while (in.NextItem()) {
      if (in.Peek() == JsonReader::Type::kString) {
        in.String();
      } else {
        in.AnyNumber("a name or a number");
      }
    }
  }
}

// [node, output] or [node, output, version].
Entry ReadEntry(JsonReader& in, std::size_t nodes) {
  Entry entry;
  std::int64_t count = 0;
  in.BeginList("[node, output, version]");
  for (; in.NextItem(); ++count) {
    const std::int64_t number = in.Integer("a number from 0 on", 0, kMostNumber);
    if (count == 0) entry.node = static_cast<int>(number);
    if (count == 0 && in.ok() && static_cast<std::size_t>(number) >= nodes) {
      in.FailLast(fmt::format("a node before this one (below {})", nodes));
    }
    if (count == 1) entry.output = static_cast<int>(number);
  }
  if (in.ok() && count != 2 && count != 3) in.FailWith("expected [node, output, version]");
  return entry;
}

void ReadAttributes(JsonReader& in, Node& node) {
  in.BeginObject("an object of texts");
  while (in.NextKey()) {
    std::string key(in.key());
    std::string value(in.String());
    if (in.ok() && !(IsUtf8(key) && IsUtf8(value))) in.FailLast("UTF-8");
    node.attributes.emplace_back(std::move(key), std::move(value));
  }
}

Node ReadNode(JsonReader& in, std::size_t number) {
  Node node;
  JsonFields fields(in, kNode, "a node");
  for (int field; (field = fields.Next()) >= 0;) {
    switch (field) {
      case 0:
        node.op = in.String("an operator's name");
        if (node.op == "null") node.op.clear();
        if (in.ok() && !IsUtf8(node.op)) in.FailLast("UTF-8");
        break;
      case 1:
        node.name = in.String("a name");
        if (in.ok() && !IsUtf8(node.name)) in.FailLast("UTF-8");
        break;
      case 2:
      case 4:
      case 5: ReadAttributes(in, node); break;
      case 3:
        in.BeginList("a list of inputs");
        while (in.NextItem()) node.inputs.push_back(ReadEntry(in, number));
        break;
      case 6: in.Integer(); break;
      default: SkipNumbers(in); break;
    }
  }
  return node;
}

}  // namespace

Result<Symbol> ParseSymbol(std::string_view text) {
  JsonReader in(text);
  Symbol symbol;
  JsonFields fields(in, kTop, "an MXNet symbol");
  for (int field; (field = fields.Next()) >= 0;) {
    switch (field) {
      case 0:
        in.BeginList("a list of nodes");
        while (in.NextItem()) symbol.nodes.push_back(ReadNode(in, symbol.nodes.size()));
        break;
      case 3:
        in.BeginList("a list of heads");
        while (in.NextItem()) symbol.heads.push_back(ReadEntry(in, symbol.nodes.size()));
        break;
      case 4:
      case 5: SkipVersion(in); break;
      default: SkipNumbers(in); break;
    }
  }
  in.End();
  if (!in.ok()) return tl::unexpected<Error>(in.error());
  if (symbol.heads.empty()) return Fail("heads: expected at least one output");
  for (std::size_t i = 0; i < symbol.nodes.size(); ++i) {
    const Node& node = symbol.nodes[i];
    if (node.is_variable() && !node.inputs.empty()) return Fail("nodes[{}]: a variable that reads others", i);
  }
  return symbol;
}

std::string Describe(const Symbol& symbol, int number) {
  const Node& node = symbol.node(number);
  const std::string what = node.is_variable() ? "variable " + node.name : node.op + " " + node.name;
  return fmt::format("node {} ({})", number, Quoted(what.substr(0, kMostShown)));
}

const std::string* Node::Find(std::string_view attribute) const {
  for (const auto& [key, value] : attributes) {
    if (key == attribute) return &value;
  }
  return nullptr;
}

std::string Node::Text(std::string_view attribute, std::string_view otherwise) const {
  const std::string* text = Find(attribute);
  return text ? *text : std::string(otherwise);
}

namespace {

// Of the text from `begin` on; false: none begins there.
bool TakeNumber(std::string_view& text, std::int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number > kMostNumber || number < -kMostNumber) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with('L')) text.remove_prefix(1);  // as Python 2 wrote long numbers
  return true;
}

void SkipBlanks(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == ',')) text.remove_prefix(1);
}

tl::unexpected<Error> Unlike(std::string_view attribute, const char* expected, const std::string& found) {
  return Fail("attribute {}: expected {}, found {}", attribute, expected, Quoted(found.substr(0, kMostShown)));
}

}  // namespace

Result<std::int64_t> IntegerOf(const Node& node, std::string_view attribute, std::int64_t otherwise) {
  const std::string* text = node.Find(attribute);
  if (text == nullptr || *text == "None") return otherwise;
  std::string_view rest = *text;
  std::int64_t number = 0;
  if (!TakeNumber(rest, number) || !rest.empty()) return Unlike(attribute, "a whole number", *text);
  return number;
}

Result<bool> FlagOf(const Node& node, std::string_view attribute, bool otherwise) {
  const std::string* text = node.Find(attribute);
  if (text == nullptr || *text == "None") return otherwise;
  if (*text == "True" || *text == "true" || *text == "1") return true;
  if (*text == "False" || *text == "false" || *text == "0") return false;
  return Unlike(attribute, "True or False", *text);
}

Result<Dims> TupleOf(const Node& node, std::string_view attribute, const Dims& otherwise) {
  const std::string* text = node.Find(attribute);
  if (text == nullptr || *text == "None") return otherwise;
  std::string_view rest = *text;
  const bool is_open = rest.starts_with('(') || rest.starts_with('[');
  const char close = rest.starts_with('[') ? ']' : ')';
  if (is_open) rest.remove_prefix(1);
  Dims values;
  for (SkipBlanks(rest); !rest.empty() && rest.front() != close; SkipBlanks(rest)) {
    std::int64_t number = 0;
    if (!TakeNumber(rest, number) || values.size() == kMostAxes || (!is_open && !values.empty())) {
      return Unlike(attribute, "at most 8 whole numbers in brackets", *text);
    }
    values.push_back(number);
  }
  if (is_open != (rest.size() == 1)) return Unlike(attribute, "whole numbers in brackets", *text);
  return values;
}

std::string TupleText(const Dims& values) { return fmt::format("({})", fmt::join(values, ", ")); }

}  // namespace ebbtide::model::mxnet
