// torch's scaled_dot_product_attention, as its exporters spell it: query and transposed key each times the root of the
// scale, MatMul, Add of the mask, Softmax, Dropout, MatMul with the value. Attention that scales the scores instead
// is what models write by hand and torch runs op by op; it stays as it is.
#include "model/onnx/patterns/pattern.h"

namespace ebbtide::model::onnx {
namespace {

// x of x times a number known on the host.
ValueId Unscaled(const PatternView& view, ValueId id) {
  const Node* scaled = view.OnlyMaker(id, "Mul");
  if (!scaled || scaled->inputs.size() != 2) return kNoValue;
  if (view.IsHost(scaled->inputs[1]) && !view.IsHost(scaled->inputs[0])) return scaled->inputs[0];
  return view.IsHost(scaled->inputs[0]) && !view.IsHost(scaled->inputs[1]) ? scaled->inputs[1] : kNoValue;
}

// Where the softmax that avoids NaN for rows without any key is spelled out: where(isnan(y), 0, y).
ValueId BehindNanGuard(const PatternView& view, ValueId id) {
  const Node* guard = view.Maker(id, "Where");
  const Node* test = guard ? view.Maker(guard->input(0), "IsNaN") : nullptr;
  return test && test->input(0) == guard->input(2) ? guard->input(2) : id;
}

struct Key {
  ValueId value = kNoValue;
  std::vector<std::int64_t> order;  // axes of `value` that make [batch, heads, length, width]; empty: it has them
};

// The key before its last two axes were swapped.
Key Untransposed(const PatternView& view, ValueId id) {
  if (const Node* turned = view.Maker(id, "Transpose")) {
    const auto* order = turned->Get<std::vector<std::int64_t>>("perm");
    if (!order || order->size() != 4) return {};
    return {turned->input(0), {(*order)[0], (*order)[1], (*order)[3], (*order)[2]}};
  }
  // Folded to three axes for the Transpose, and back.
  const Node* back = view.Maker(id, "Reshape");
  const Node* turned = back ? view.Maker(back->input(0), "Transpose") : nullptr;
  const auto* order = turned ? turned->Get<std::vector<std::int64_t>>("perm") : nullptr;
  if (!order || *order != std::vector<std::int64_t>{0, 2, 1}) return {};
  const Node* folded = view.Maker(turned->input(0), "Reshape");
  return folded ? Key{folded->input(0), {}} : Key{};
}

}  // namespace

std::optional<Node> MatchAttention(const PatternView& view, const Node& last) {
  if (last.inputs.size() != 2) return std::nullopt;
  double ratio = 0;
  ValueId weights = last.inputs[0];
  if (const Node* dropout = view.OnlyMaker(weights, "Dropout")) {
    const auto* attribute = dropout->Get<double>("ratio");
    ratio = view.Number(dropout->input(1)).value_or(attribute ? *attribute : 0.5);
    weights = dropout->input(0);
  }
  const Node* softmax = view.Maker(BehindNanGuard(view, weights), "Softmax");
  if (!softmax) return std::nullopt;
  ValueId scores = softmax->input(0), mask = kNoValue;
  const Node* product = view.OnlyMaker(scores, "MatMul");
  if (const Node* sum = view.OnlyMaker(scores, "Add"); sum && sum->inputs.size() == 2) {
    for (int side : {0, 1}) {
      if (const Node* found = view.OnlyMaker(sum->inputs[side], "MatMul"); found && !product) {
        product = found;
        mask = sum->inputs[1 - side];
      }
    }
  }
  if (!product || product->inputs.size() != 2) return std::nullopt;
  const ValueId query = Unscaled(view, product->inputs[0]);
  const Key key = Untransposed(view, Unscaled(view, product->inputs[1]));
  if (query == kNoValue || key.value == kNoValue) return std::nullopt;
  Node attention = Replacement(last, "ebbtide.Attention", {query, key.value, last.inputs[1], mask});
  attention.attributes.emplace_back("dropout", ratio);
  attention.attributes.emplace_back("key_order", key.order);
  return attention;
}

}  // namespace ebbtide::model::onnx
