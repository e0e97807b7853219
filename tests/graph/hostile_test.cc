// Graph files that are broken, wrong or meant to do harm: each gives one line that says where, and nothing else.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "graph/json.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/tiny_graph.h"

namespace ebbtide {
namespace {

using Json = nlohmann::ordered_json;

std::string FullComplaint(const std::string& text) {
  const auto graph = ParseGraph(text, "bad.json");
  return graph ? "valid" : graph.error().message;
}

// Without the line and the column.
std::string Complaint(const std::string& text) {
  const std::string message = FullComplaint(text);
  return message.substr(0, message.find(" (line "));
}

// A graph of these fields besides the two that every graph has.
std::string Graph(const std::string& fields) { return R"({"format": "ebbtide.graph", "version": 1, )" + fields + "}"; }

void ExpectOneLine(const std::string& message) {
  EXPECT_TRUE(message.starts_with("bad.json: ")) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 600u) << message;
}

TEST(HostileGraph, CutAtEveryByte) {
  const std::string text = TinyGraphText();
  for (std::size_t length = 0; length + 1 < text.size(); ++length) {
    const std::string message = FullComplaint(text.substr(0, length));
    ASSERT_NE(message, "valid") << length;
    ExpectOneLine(message);
  }
  // Only the line's end is missing.
  EXPECT_EQ(Complaint(text.substr(0, text.size() - 1)), "valid");
}

TEST(HostileGraph, NestedAMillionDeep) {
  const auto repeat = [](const std::string& piece) {
    std::string text;
    for (int i = 0; i < 1'000'000; ++i) text += piece;
    return text;
  };
  EXPECT_EQ(Complaint(repeat("[")), "bad.json: expected an object, found a list");
  EXPECT_EQ(Complaint(repeat("{\"name\":")), "bad.json: name: expected a string, found an object");
  EXPECT_EQ(Complaint(Graph("\"ops\": " + repeat("["))), "bad.json: ops[0]: expected an op: an object, found a list");
  EXPECT_EQ(Complaint(Graph("\"ops\": [{\"kind\": \"a\", \"arguments\": {\"x\": " + repeat("["))),
            "bad.json: ops[0].arguments.x[0]: expected an integer, a float, true or false, found a list");
  EXPECT_EQ(Complaint(Graph("\"ops\": [{\"kind\": \"a\", \"arguments\": {\"x\": " + repeat("{\"tensors\": "))),
            "bad.json: ops[0].arguments.x.tensors: expected a list, found an object");
  EXPECT_EQ(Complaint(Graph("\"unknown\": " + repeat("["))),
            "bad.json: unknown: unknown key; known here are format, version, name, framework, loss_in_model, "
            "makes_state_early, meta, scalars, storages, tensors, ops, outputs");
}

TEST(HostileGraph, NumbersOutOfRange) {
  const auto bytes = [](const std::string& number) {
    return Complaint(Graph(R"("storages": [{"kind": "input", "bytes": )" + number + "}]"));
  };
  const std::string place = "bad.json: storages[0].bytes: ";
  EXPECT_EQ(bytes("9223372036854775807"), "valid");
  EXPECT_EQ(bytes("9223372036854775808"), place + "expected an integer of at most 64 bits, found 9223372036854775808");
  EXPECT_EQ(bytes("-9223372036854775809"),
            place + "expected an integer of at most 64 bits, found -9223372036854775809");
  EXPECT_EQ(bytes(std::string(1000, '9')),
            place + "expected an integer of at most 64 bits, found " + std::string(40, '9') + "...");
  EXPECT_EQ(bytes("-1"), place + "expected a number of bytes, found -1");
  EXPECT_EQ(bytes("1.0"), place + "expected a number of bytes, found 1.0");
  EXPECT_EQ(bytes("1e3"), place + "expected a number of bytes, found 1e3");
  EXPECT_EQ(bytes("1e999"), place + "expected a number in the range of a double, found 1e999");
  EXPECT_EQ(bytes("0x10"), "bad.json: storages[0].bytes: expected ',' or '}', found x10");
  EXPECT_EQ(bytes("010"), "bad.json: storages[0].bytes: expected ',' or '}', found 10");
  EXPECT_EQ(bytes("+1"), place + "expected a number of bytes, found +1");
  EXPECT_EQ(bytes("-"), place + "expected a number of bytes, found -");
  EXPECT_EQ(bytes("NaN"), place + "expected a number of bytes, found NaN");
}

TEST(HostileGraph, ClaimsOfHugeThings) {
  EXPECT_EQ(Complaint(Graph(R"("storages": [{"kind": "temporary", "bytes": 1, "released_after": 2147483648}])")),
            "bad.json: storages[0].released_after: expected the number of an op, found 2147483648");
  EXPECT_EQ(Complaint(Graph(R"("outputs": [4000000000])")),
            "bad.json: outputs[0]: expected the number of a tensor, found 4000000000");
  std::string arguments = "\"x\": 0";
  for (int i = 0; i < 1'000'000; ++i) arguments += ", \"x\": 0";
  EXPECT_EQ(Complaint(Graph("\"ops\": [{\"kind\": \"a\", \"arguments\": {" + arguments + "}}]")),
            "bad.json: ops[0].arguments.x: more than 1000 arguments");
  const auto shape = [](const std::string& dims) {
    return Complaint(
        Graph(R"("storages": [{"kind": "input", "bytes": 16}], "tensors": [{"storage": 0, "dtype": "int8", )"
              R"("shape": )" +
              dims + "}]"));
  };
  EXPECT_EQ(shape("[4294967296]"), "bad.json: tensors[0]: reaches to byte 4294967296, but storages[0] (input) has 16");
  EXPECT_EQ(shape("[4294967296, 4294967296]"), "bad.json: tensors[0]: shape: its bytes exceed 64 bits");
  EXPECT_EQ(shape("[2, 4294967296, 4294967296]"), "bad.json: tensors[0]: expected a shape whose strides fit 64 bits");
}

TEST(HostileGraph, LineAndColumnAreThoseOfTheValue) {
  EXPECT_EQ(FullComplaint("[1]"), "bad.json: expected an object, found a list (line 1, column 1)");
  EXPECT_EQ(FullComplaint(Graph("\n\n\"ops\": [{\"kind\": 5}]")),
            "bad.json: ops[0].kind: expected a string, found 5 (line 3, column 18)");
  EXPECT_EQ(FullComplaint(Graph("\n\"ops\": [\n{\"kind\": \"a\"}\n{")),
            "bad.json: ops[0]: expected ',' or ']', found an object (line 4, column 1)");
  EXPECT_EQ(FullComplaint(Graph("\n\"storages\": [{\"kind\": \"input\"}")),
            "bad.json: storages[0]: expected a key \"bytes\" in this object (line 2, column 30)");
}

TEST(HostileGraph, WrongFormatAndVersion) {
  EXPECT_EQ(Complaint(""), "bad.json: expected an object, found the end of the text");
  EXPECT_EQ(Complaint("{}"), "bad.json: expected a key \"format\" in this object");
  EXPECT_EQ(Complaint(R"({"format": "ebbtide.graph"})"), "bad.json: expected a key \"version\" in this object");
  EXPECT_EQ(Complaint(R"({"format": "ebbtide.plan"})"),
            "bad.json: format: expected \"ebbtide.graph\", found \"ebbtide.plan\"");
  EXPECT_EQ(Complaint(R"({"version": 0})"), "bad.json: version: expected a version number, found 0");
  EXPECT_EQ(Complaint(Graph(R"("name": "a")") + "{}"), "bad.json: expected the end of the text, found an object");
  EXPECT_EQ(Complaint("PK\x03\x04"), "bad.json: expected an object, found PK");
}

TEST(HostileGraph, TextThatIsNotText) {
  EXPECT_EQ(Complaint(Graph("\"name\": \"\xFF\"")), "bad.json: name: expected UTF-8, found the byte 0xff");
  EXPECT_EQ(Complaint(Graph("\"name\": \"two\nlines\"")),
            "bad.json: name: expected \\u000a, found that control character unescaped");
  EXPECT_EQ(Complaint(Graph(R"("name": "\ud800")")),
            "bad.json: name: expected an escape of JSON (\\n, \\u00e9, a pair of surrogates)");
  EXPECT_EQ(Complaint(Graph(R"("meta": {"a\nb": 1})")), "bad.json: meta[\"a\\nb\"]: expected a string, found 1");
}

TEST(HostileGraph, RepeatedAndUnknownKeys) {
  EXPECT_EQ(Complaint(Graph(R"("name": "a", "name": "b")")), "bad.json: name: this key appears twice in its object");
  EXPECT_EQ(Complaint(Graph(R"("meta": {"a": "b", "a": "c"})")),
            "bad.json: meta.a: this key appears twice in its object");
  EXPECT_EQ(Complaint(Graph(R"("ops": [{"kind": "a", "arguments": {"x": 1, "x": 2}}])")),
            "bad.json: ops[0] (a): argument \"x\" appears twice");
  EXPECT_EQ(Complaint(Graph(R"("storages": [{"kind": "input", "size": 1}])")),
            "bad.json: storages[0].size: unknown key; known here are kind, bytes, name, released_after, outside");
  EXPECT_EQ(Complaint(Graph(R"("ops": [{"kind": "a", "arguments": {"x": {}}}])")),
            "bad.json: ops[0].arguments.x: expected an object of one key, found 0");
  EXPECT_EQ(Complaint(Graph(R"("ops": [{"kind": "a", "arguments": {"x": {"float": "inf", "layout": "y"}}}])")),
            "bad.json: ops[0].arguments.x: expected an object of one key, found 2");
}

// Calls `visit` with every value below `json` and the place a message would name.
void ForEachValue(Json& json, const std::string& place, const std::function<void(Json&, const std::string&)>& visit) {
  if (!place.empty()) visit(json, place);
  if (json.is_object()) {
    for (auto& [key, value] : json.items()) ForEachValue(value, place.empty() ? key : place + "." + key, visit);
  } else if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i) ForEachValue(json[i], place + "[" + std::to_string(i) + "]", visit);
  }
}

TEST(HostileGraph, WrongTypeInEveryPlace) {
  const std::vector<Json> replacements = {nullptr,
                                          true,
                                          -1,
                                          0.5,
                                          "x",
                                          Json::array(),
                                          Json::object(),
                                          Json::array({Json::array()}),
                                          Json::object({{"x", 1}})};
  Json graph = Json::parse(TinyGraphText());
  int refused = 0;
  ForEachValue(graph, "", [&](Json& value, const std::string& place) {
    const Json original = value;
    for (const Json& replacement : replacements) {
      const bool number = original.is_number() && replacement.is_number();
      // Any value may be an argument, any number the value of a scalar.
      if (place.find(".arguments.") != std::string::npos || (number && place.ends_with(".value"))) continue;
      if (replacement.type() == original.type() && !number) continue;
      value = replacement;
      const std::string message = FullComplaint(graph.dump());
      EXPECT_NE(message, "valid") << place << " = " << replacement;
      ExpectOneLine(message);
      EXPECT_TRUE(message.starts_with("bad.json: " + place)) << message;
      ++refused;
    }
    value = original;
  });
  EXPECT_GT(refused, 1000);
}

TEST(HostileGraph, EveryRequiredKeyIsMissed) {
  const std::vector<std::string> required = {"format",  "version", "kind",  "bytes",
                                             "storage", "dtype",   "shape", "value"};
  Json graph = Json::parse(TinyGraphText());
  int missed = 0;
  const auto without = [&](Json& object, const std::string& place) {
    for (const std::string& key : required) {
      if (place.find("arguments") != std::string::npos || !object.is_object() || !object.contains(key)) continue;
      const Json original = object;
      object.erase(key);
      const std::string message = FullComplaint(graph.dump());
      ExpectOneLine(message);
      EXPECT_NE(message.find((place.empty() ? "" : place + ": ") + "expected a key \"" + key + "\""), std::string::npos)
          << message;
      object = original;
      ++missed;
    }
  };
  without(graph, "");
  ForEachValue(graph, "", without);
  // 2 of the graph, 1 scalar, 6 storages of 2, 9 tensors of 3, 8 ops.
  EXPECT_EQ(missed, 2 + 1 + 12 + 27 + 8);
}

TEST(HostileGraph, RandomDamage) {
  std::mt19937 random(7);
  const std::string original = ToJson(RandomGraph(3, {.ops = 15}));
  const std::string alphabet = "{}[]\",:0123456789.-+eE\\u truefalsn\xFF\xC3\n";
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = original;
    for (unsigned n = random() % 3 + 1; n > 0; --n) {
      const std::size_t at = random() % text.size();
      const char c = alphabet[random() % alphabet.size()];
      switch (random() % 3) {
        case 0: text[at] = c; break;
        case 1: text.insert(at, 1, c); break;
        default: text.erase(at, random() % 20 + 1);
      }
    }
    const auto graph = ParseGraph(text, "bad.json");
    if (!graph) {
      ExpectOneLine(graph.error().message);
      continue;
    }
    ++accepted;
    const std::string canonical = ToJson(*graph);
    const auto again = ParseGraph(canonical, "canonical");
    ASSERT_TRUE(again) << again.error().message;
    ASSERT_EQ(ToJson(*again), canonical);
  }
  EXPECT_GT(accepted, 100);
}

TEST(HostileGraph, AGzipBombOfOps) {
  // 80 MiB of ops in 0.3 MiB of gzip, where 64 MiB + 100 * 0.1 MiB are allowed so far.
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / ("bomb-" + std::to_string(getpid()))).string() + ".gz";
  auto writer = FileWriter::Create(path);
  ASSERT_TRUE(writer) << writer.error().message;
  std::string ops;
  while (ops.size() < std::size_t{1} << 20) ops += "{\"kind\":\"a\"},";
  ASSERT_TRUE(writer->Append("{\"format\":\"ebbtide.graph\",\"version\":1,\"ops\":["));
  for (int i = 0; i < 80; ++i) ASSERT_TRUE(writer->Append(ops));
  ASSERT_TRUE(writer->Commit());
  const auto graph = ReadGraph(path);
  std::filesystem::remove(path);
  ASSERT_FALSE(graph);
  EXPECT_TRUE(graph.error().message.starts_with(path + ": expands to more than ")) << graph.error().message;
}

}  // namespace
}  // namespace ebbtide
