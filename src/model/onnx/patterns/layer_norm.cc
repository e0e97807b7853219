// Layer normalisation of before opset 17: (x - mean) / sqrt(variance + epsilon) * weight + bias.
#include "model/onnx/patterns/pattern.h"
#include "model/onnx/shapes.h"

namespace ebbtide::model::onnx {
namespace {

// First of the last axes that a ReduceMean runs over, from the back; nullopt where they are others.
std::optional<std::int64_t> FirstOfLastAxes(const PatternView& view, const Node& mean) {
  const Constant* input = view.FindConstant(mean.input(1));
  const auto axes = AxesOf(mean, input && input->contents ? &*input->contents : nullptr);
  if (!axes || axes->empty()) return std::nullopt;
  const auto count = static_cast<std::int64_t>(axes->size());
  for (std::int64_t i = 0; i < count; ++i) {
    if ((*axes)[i] != i - count) return std::nullopt;
  }
  return -count;
}

// x - mean(x): gives x and the mean's node.
const Node* MeanOfDifference(const PatternView& view, const Node* difference) {
  if (!difference || difference->inputs.size() != 2) return nullptr;
  const Node* mean = view.Maker(difference->inputs[1], "ReduceMean");
  return mean && mean->input(0) == difference->inputs[0] ? mean : nullptr;
}

}  // namespace

std::optional<Node> MatchLayerNorm(const PatternView& view, const Node& last) {
  if (last.inputs.size() != 2) return std::nullopt;
  for (ValueId bias : last.inputs) {
    const Node* scaled = view.FindConstant(bias) ? view.OnlyMaker(PatternView::Beside(&last, bias), "Mul") : nullptr;
    if (!scaled || scaled->inputs.size() != 2) continue;
    for (ValueId weight : scaled->inputs) {
      const Node* normal =
          view.FindConstant(weight) ? view.OnlyMaker(PatternView::Beside(scaled, weight), "Div") : nullptr;
      if (!normal || normal->inputs.size() != 2) continue;
      const Node* difference = view.Maker(normal->inputs[0], "Sub");
      const Node* mean = MeanOfDifference(view, difference);
      const Node* deviation = view.Maker(normal->inputs[1], "Sqrt");
      const Node* shifted = deviation ? view.Maker(deviation->input(0), "Add") : nullptr;
      if (!mean || !shifted) continue;
      const Node* variance = view.Maker(shifted->input(0), "ReduceMean");
      if (!variance) variance = view.Maker(shifted->input(1), "ReduceMean");
      const Node* square = variance ? view.Maker(variance->input(0), "Pow") : nullptr;
      if (variance && !square) square = view.Maker(variance->input(0), "Mul");
      if (!square || MeanOfDifference(view, view.Maker(square->input(0), "Sub")) != mean) continue;
      const auto axis = FirstOfLastAxes(view, *mean);
      if (!axis) continue;
      Node norm = Replacement(last, "LayerNormalization", {difference->inputs[0], weight, bias});
      norm.attributes.emplace_back("axis", *axis);
      return norm;
    }
  }
  return std::nullopt;
}

}  // namespace ebbtide::model::onnx
