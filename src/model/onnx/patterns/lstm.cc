// An LSTM whose weights the exporter cuts into gates and joins in ONNX's order: the layer's own weights, as torch holds
// them, are what is trained.
#include <algorithm>

#include "model/onnx/patterns/pattern.h"

namespace ebbtide::model::onnx {
namespace {

// The initializers that a value is cut and joined from, in order; empty where there is anything else among them.
std::vector<ValueId> Pieces(const PatternView& view, ValueId root) {
  constexpr int kMostSteps = 64;
  std::vector<ValueId> open = {root}, found;
  for (int steps = 0; !open.empty(); ++steps) {
    if (steps == kMostSteps) return {};
    const ValueId id = open.back();
    open.pop_back();
    if (view.FindConstant(id)) {
      if (std::ranges::find(found, id) == found.end()) found.push_back(id);
      continue;
    }
    if (const Node* joined = view.Maker(id, "Concat")) {
      open.insert(open.end(), joined->inputs.rbegin(), joined->inputs.rend());
      continue;
    }
    const Node* cut = view.Maker(id, "Slice");
    if (!cut) cut = view.Maker(id, "Unsqueeze");
    if (!cut) return {};
    open.push_back(cut->input(0));
  }
  return found;
}

}  // namespace

std::optional<Node> MatchLstm(const PatternView& view, const Node& last) {
  if (last.inputs.size() < 3) return std::nullopt;
  const std::vector<ValueId> input = Pieces(view, last.inputs[1]), hidden = Pieces(view, last.inputs[2]);
  if (input.size() != 1 || hidden.size() != 1) return std::nullopt;
  Node lstm = Replacement(last, "ebbtide.Lstm", {last.inputs[0], input[0], hidden[0]});
  if (last.input(3) != kNoValue) {
    const std::vector<ValueId> biases = Pieces(view, last.inputs[3]);
    if (biases.empty() || biases.size() > 2) return std::nullopt;
    lstm.inputs.insert(lstm.inputs.end(), biases.begin(), biases.end());
  }
  lstm.attributes = last.attributes;
  return lstm;
}

}  // namespace ebbtide::model::onnx
