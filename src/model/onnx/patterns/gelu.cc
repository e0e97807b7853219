// GELU spelled out: the product of x, one half, and 1 + erf(x / sqrt(2)), in any order; or of the tanh form as
// exporters write it. The tanh form with Pow is what transformers runs as separate kernels, and stays as it is.
#include <array>
#include <numbers>

#include "model/onnx/patterns/pattern.h"

namespace ebbtide::model::onnx {
namespace {

bool IsErfFactor(const PatternView& view, ValueId id, ValueId x) {
  const Node* erf = view.Maker(view.BesideNumber(view.Maker(id, "Add"), 1), "Erf");
  if (!erf) return false;
  if (const Node* scaled = view.Maker(erf->input(0), "Div")) {
    return scaled->input(0) == x && view.IsNumber(scaled->input(1), std::numbers::sqrt2);
  }
  return view.BesideNumber(view.Maker(erf->input(0), "Mul"), 1 / std::numbers::sqrt2) == x;
}

bool IsCube(const PatternView& view, ValueId id, ValueId x) {
  const Node* square = view.Maker(PatternView::Beside(view.Maker(id, "Mul"), x), "Mul");
  return square && square->inputs.size() == 2 && square->inputs[0] == x && square->inputs[1] == x;
}

// 1 + tanh(sqrt(2/pi) (x + 0.044715 x x x))
bool IsTanhFactor(const PatternView& view, ValueId id, ValueId x) {
  const Node* tanh = view.Maker(view.BesideNumber(view.Maker(id, "Add"), 1), "Tanh");
  if (!tanh) return false;
  const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const Node* inner = view.Maker(view.BesideNumber(view.Maker(tanh->input(0), "Mul"), scale), "Add");
  const Node* cubic = view.Maker(PatternView::Beside(inner, x), "Mul");
  return IsCube(view, view.BesideNumber(cubic, 0.044715), x);
}

}  // namespace

std::optional<Node> MatchGelu(const PatternView& view, const Node& last) {
  if (last.inputs.size() != 2) return std::nullopt;
  for (int side : {0, 1}) {
    const Node* inner = view.OnlyMaker(last.inputs[side], "Mul");
    if (!inner || inner->inputs.size() != 2) continue;
    const std::array<ValueId, 3> factors = {inner->inputs[0], inner->inputs[1], last.inputs[1 - side]};
    for (int half = 0; half < 3; ++half) {
      if (!view.IsNumber(factors[half], 0.5)) continue;
      const ValueId a = factors[(half + 1) % 3], b = factors[(half + 2) % 3];
      for (auto [x, factor] : {std::pair(a, b), std::pair(b, a)}) {
        const bool exact = IsErfFactor(view, factor, x);
        if (!exact && !IsTanhFactor(view, factor, x)) continue;
        Node gelu = Replacement(last, "Gelu", {x});
        gelu.attributes.emplace_back("approximate", std::string(exact ? "none" : "tanh"));
        return gelu;
      }
    }
  }
  return std::nullopt;
}

}  // namespace ebbtide::model::onnx
