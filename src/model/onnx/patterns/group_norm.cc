// Group normalisation of before opset 18: instance normalisation of [N, groups, rest] without weights, put back into
// shape, then a weight and a bias per channel.
#include "model/onnx/patterns/pattern.h"

namespace ebbtide::model::onnx {
namespace {

// The constant behind the axes that make it broadcast over an image.
ValueId PerChannel(const PatternView& view, ValueId id) {
  for (int steps = 0; steps < 4; ++steps) {
    if (const Constant* constant = view.FindConstant(id)) return constant->shape.size() == 1 ? id : kNoValue;
    const Node* unsqueeze = view.Maker(id, "Unsqueeze");
    if (!unsqueeze) return kNoValue;
    id = unsqueeze->input(0);
  }
  return kNoValue;
}

}  // namespace

std::optional<Node> MatchGroupNorm(const PatternView& view, const Node& last) {
  if (last.inputs.size() != 2) return std::nullopt;
  for (ValueId bias : last.inputs) {
    const Node* scaled = view.OnlyMaker(PatternView::Beside(&last, bias), "Mul");
    if (PerChannel(view, bias) == kNoValue || !scaled || scaled->inputs.size() != 2) continue;
    for (ValueId weight : scaled->inputs) {
      const Node* back = view.OnlyMaker(PatternView::Beside(scaled, weight), "Reshape");
      const Node* norm = back ? view.OnlyMaker(back->input(0), "InstanceNormalization") : nullptr;
      const Node* grouped = norm ? view.OnlyMaker(norm->input(0), "Reshape") : nullptr;
      const Constant* shape = grouped ? view.FindConstant(grouped->input(1)) : nullptr;
      if (PerChannel(view, weight) == kNoValue || !shape || !shape->contents || shape->contents->is_real()) continue;
      if (shape->shape != Dims{3} || shape->contents->integer(0) != 0 || shape->contents->integer(2) != -1) continue;
      Node group = Replacement(last, "GroupNormalization",
                               {grouped->input(0), PerChannel(view, weight), PerChannel(view, bias)});
      group.attributes.emplace_back("num_groups", shape->contents->integer(1));
      return group;
    }
  }
  return std::nullopt;
}

}  // namespace ebbtide::model::onnx
