// nn.Linear of more than two axes: MatMul with the (transposed) weight, then Add of the bias.
#include "model/onnx/patterns/pattern.h"

namespace ebbtide::model::onnx {

std::optional<Node> MatchLinear(const PatternView& view, const Node& last) {
  if (last.inputs.size() != 2) return std::nullopt;
  for (ValueId bias : last.inputs) {
    const Constant* bias_constant = view.FindConstant(bias);
    if (!bias_constant || !IsFloating(bias_constant->dtype) || bias_constant->shape.size() != 1) continue;
    const Node* product = view.OnlyMaker(PatternView::Beside(&last, bias), "MatMul");
    if (!product || product->inputs.size() != 2) continue;
    ValueId weight = product->inputs[1];
    const Node* turned = view.Maker(weight, "Transpose");
    if (turned) weight = turned->input(0);
    const Constant* constant = view.FindConstant(weight);
    if (!constant || !view.IsWeight(weight) || constant->shape.size() != 2) continue;
    if (constant->shape[turned ? 0 : 1] != bias_constant->shape[0] || view.IsWeight(product->inputs[0])) continue;
    Node linear = Replacement(last, "ebbtide.Linear", {product->inputs[0], weight, bias});
    // Without a Transpose the exporter has turned the weight itself: [in, out].
    linear.attributes.emplace_back("turned", std::int64_t{turned == nullptr});
    return linear;
  }
  return std::nullopt;
}

}  // namespace ebbtide::model::onnx
