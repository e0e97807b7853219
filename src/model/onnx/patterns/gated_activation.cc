// Activations of the form x f(x): SiLU, hard-swish and Mish, from before the operator sets that have them.
#include "model/onnx/patterns/pattern.h"

namespace ebbtide::model::onnx {
namespace {

// clip(x + 3, 0, 6)
bool IsShiftedRelu6(const PatternView& view, ValueId id, ValueId x) {
  const Node* clip = view.Maker(id, "Clip");
  return clip && view.IsNumber(clip->input(2), 6) && view.BesideNumber(view.Maker(clip->input(0), "Add"), 3) == x;
}

}  // namespace

std::optional<Node> MatchGatedActivation(const PatternView& view, const Node& last) {
  if (last.inputs.size() != 2) return std::nullopt;
  if (last.op == "Div") {  // (x clip(x + 3, 0, 6)) / 6
    const Node* product = view.IsNumber(last.inputs[1], 6) ? view.OnlyMaker(last.inputs[0], "Mul") : nullptr;
    if (!product || product->inputs.size() != 2) return std::nullopt;
    for (ValueId x : product->inputs) {
      if (IsShiftedRelu6(view, PatternView::Beside(product, x), x)) return Replacement(last, "HardSwish", {x});
    }
    return std::nullopt;
  }
  for (int side : {0, 1}) {
    const ValueId x = last.inputs[side], gate = last.inputs[1 - side];
    if (const Node* node = view.OnlyMaker(gate, "Sigmoid"); node && node->input(0) == x) {
      return Replacement(last, "Swish", {x});
    }
    if (const Node* node = view.OnlyMaker(gate, "HardSigmoid"); node && node->input(0) == x) {
      return Replacement(last, "HardSwish", {x});
    }
    if (const Node* node = view.OnlyMaker(gate, "Div");
        node && view.IsNumber(node->input(1), 6) && IsShiftedRelu6(view, node->input(0), x)) {
      return Replacement(last, "HardSwish", {x});
    }
    const Node* tanh = view.OnlyMaker(gate, "Tanh");
    const Node* softplus = tanh ? view.OnlyMaker(tanh->input(0), "Softplus") : nullptr;
    if (softplus && softplus->input(0) == x) return Replacement(last, "Mish", {x});
  }
  return std::nullopt;
}

}  // namespace ebbtide::model::onnx
