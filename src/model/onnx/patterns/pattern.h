// Patterns: operators that exporters spell out with several nodes but frameworks run as one kernel, which saves less.
// One file per pattern; pattern.cc lists them. A match replaces the last node of the spelling; the others stay and are
// dropped if nothing else reads them.
#pragma once

#include <optional>
#include <string_view>

#include "model/onnx/analysis.h"
#include "model/onnx/file.h"

namespace ebbtide::model::onnx {

// What patterns look at: the graph upwards from a node.
class PatternView {
 public:
  PatternView(const File& file, const Analysis& analysis) : file_(file), analysis_(analysis) {}

  // The node that makes the value, if it is of that operator.
  const Node* Maker(ValueId id, std::string_view op) const;
  // The same, if nothing else reads the value.
  const Node* OnlyMaker(ValueId id, std::string_view op) const;
  bool IsHost(ValueId id) const { return id != kNoValue && analysis_.host[id]; }
  bool IsWeight(ValueId id) const { return id != kNoValue && analysis_.weight[id]; }
  const Constant* FindConstant(ValueId id) const;

  // A constant number, seen through casts.
  std::optional<double> Number(ValueId id) const;
  bool IsNumber(ValueId id, double number) const;  // to four digits
  // Of a node with two inputs one of which is that number: the other; else kNoValue.
  ValueId BesideNumber(const Node* node, double number) const;
  // Of a node with two inputs: the one that is not `id`; else kNoValue.
  static ValueId Beside(const Node* node, ValueId id);

 private:
  const File& file_;
  const Analysis& analysis_;
};

// The node that takes the place of `last`, without its outputs.
using Match = std::optional<Node> (*)(const PatternView& view, const Node& last);

// A new node in the place of `last`.
Node Replacement(const Node& last, std::string_view op, std::vector<ValueId> inputs);

// ---- One function per file; pattern.cc says at which operators they are tried.
std::optional<Node> MatchLinear(const PatternView& view, const Node& last);
std::optional<Node> MatchAttention(const PatternView& view, const Node& last);
std::optional<Node> MatchGelu(const PatternView& view, const Node& last);
std::optional<Node> MatchGatedActivation(const PatternView& view, const Node& last);
std::optional<Node> MatchLayerNorm(const PatternView& view, const Node& last);
std::optional<Node> MatchGroupNorm(const PatternView& view, const Node& last);
std::optional<Node> MatchLstm(const PatternView& view, const Node& last);

// Replaces all that match, in place.
void ReplacePatterns(File& file);

}  // namespace ebbtide::model::onnx
