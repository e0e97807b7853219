// A symbolic graph of MXNet as values. Nodes read outputs of nodes before them; a node without operator is a variable.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace ebbtide::model::mxnet {

// One output of a node.
struct Entry {
  int node = 0;
  int output = 0;
  auto operator<=>(const Entry&) const = default;
};

struct Node {
  std::string op = {};  // "Convolution"; empty: a variable
  std::string name = {};
  std::vector<std::pair<std::string, std::string>> attributes = {};
  std::vector<Entry> inputs = {};
  std::vector<int> after = {};    // nodes that must have run before it, beside those it reads
  int gradient_of = -1;           // the node of the forward pass that it belongs to; -1: it is one itself
  std::vector<Dims> shapes = {};  // of its outputs; none: not known yet

  bool is_variable() const { return op.empty(); }
  const std::string* Find(std::string_view attribute) const;
  std::string Text(std::string_view attribute, std::string_view otherwise = "") const;
};

struct Symbol {
  std::vector<Node> nodes;
  std::vector<Entry> heads;

  const Dims& shape(Entry entry) const {
    return nodes[static_cast<std::size_t>(entry.node)].shapes[static_cast<std::size_t>(entry.output)];
  }
  Node& node(int number) { return nodes[static_cast<std::size_t>(number)]; }
  const Node& node(int number) const { return nodes[static_cast<std::size_t>(number)]; }
};

// More outputs than this, over all nodes, are refused: an attribute can ask for as many as it likes.
inline constexpr std::size_t kMostOutputs = 1'000'000;
inline constexpr std::size_t kMostAxes = 8;

// Reads the text of a `-symbol.json`. Nodes refer to earlier ones; shapes are not known yet.
Result<Symbol> ParseSymbol(std::string_view text);

// "node 17 (Convolution conv0)".
std::string Describe(const Symbol& symbol, int node);

// ---- Attributes are text. Errors name the attribute.
Result<std::int64_t> IntegerOf(const Node& node, std::string_view attribute, std::int64_t otherwise);
Result<bool> FlagOf(const Node& node, std::string_view attribute, bool otherwise);
// "(3, 3)", "[3,3]", "(3,)", "()" or "3"; None and absent: `otherwise`.
Result<Dims> TupleOf(const Node& node, std::string_view attribute, const Dims& otherwise);

std::string TupleText(const Dims& values);

}  // namespace ebbtide::model::mxnet
