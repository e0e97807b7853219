// Finds the rule of an operator; casts, ranges and reductions over all elements are here, the others in fold_*.cc.
#include "model/onnx/fold.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace ebbtide::model::onnx {

Folded Converted(const Array& array, DType dtype) {
  Array out{.dtype = dtype, .shape = array.shape};
  for (std::size_t i = 0; i < array.stored(); ++i) {
    if (IsFloating(dtype)) {
      out.reals.push_back(array.number(i));
    } else if (dtype == DType::kBool) {
      out.integers.push_back(array.number(i) != 0);
    } else if (array.is_real()) {
      if (!(std::fabs(array.real(i)) < 9.2e18)) return std::nullopt;
      out.integers.push_back(static_cast<std::int64_t>(array.real(i)));
    } else {
      out.integers.push_back(array.integer(i));
    }
  }
  return Simplified(std::move(out));
}

namespace {

Folded ConstantOfShape(const Node& node, const KnownInputs& inputs) {
  const auto shape = AxesOf(node, InputAt(inputs, 0));
  if (!shape || InputAt(inputs, 0) == nullptr || !CountElements(*shape)) return std::nullopt;
  Array out = RealArray({}, {0});
  if (const auto* value = node.Get<Constant>("value")) {
    if (!value->contents || !value->contents->is_uniform()) return std::nullopt;
    out = *value->contents;
  }
  out.shape = *shape;
  if (*CountElements(*shape) == 0) return std::nullopt;
  return out;
}

Folded Cast(const Node& node, const KnownInputs& inputs) {
  const Array* x = InputAt(inputs, 0);
  const auto dtype = TypeFromNumber(IntegerOf(node, "to", 0));
  if (x == nullptr || !dtype) return std::nullopt;
  return Converted(*x, *dtype);
}

Folded CastLike(const Node&, const KnownInputs& inputs) {
  const Array *x = InputAt(inputs, 0), *like = InputAt(inputs, 1);
  if (x == nullptr || like == nullptr) return std::nullopt;
  return Converted(*x, like->dtype);
}

Folded Range(const Node&, const KnownInputs& inputs) {
  const Array *start = InputAt(inputs, 0), *limit = InputAt(inputs, 1), *step = InputAt(inputs, 2);
  if (start == nullptr || limit == nullptr || step == nullptr) return std::nullopt;
  if (!start->is_uniform() || !limit->is_uniform() || !step->is_uniform() || step->number(0) == 0) return std::nullopt;
  const double count = std::ceil((limit->number(0) - start->number(0)) / step->number(0));
  if (!(count <= static_cast<double>(kMostKnownElements))) return std::nullopt;
  Array out{.dtype = start->dtype,
            .shape = {std::max<std::int64_t>(static_cast<std::int64_t>(std::max(count, 0.0)), 0)}};
  for (std::int64_t i = 0; i < out.shape[0]; ++i) {
    const double value = start->number(0) + static_cast<double>(i) * step->number(0);
    if (!(std::fabs(value) < 9e18)) return std::nullopt;
    out.is_real() ? out.reals.push_back(value) : out.integers.push_back(static_cast<std::int64_t>(value));
  }
  return Simplified(std::move(out));
}

// Products and sums over all elements: sizes of flattened shapes.
Folded Reduce(const Node& node, const KnownInputs& inputs) {
  const Array* x = InputAt(inputs, 0);
  const auto axes = AxesOf(node, InputAt(inputs, 1));
  if (x == nullptr || x->is_real() || x->shape.size() != 1 || !axes || axes->size() > 1) return std::nullopt;
  if (axes->size() == 1 && !NormalAxis(axes->front(), 1)) return std::nullopt;
  const auto count = KnownCount(x->shape, false);
  if (!count || *count == 0) return std::nullopt;
  std::optional<std::int64_t> total = x->integer(0);
  for (std::int64_t i = 1; i < *count && total; ++i) {
    const std::int64_t value = x->integer(i);
    total = node.op == "ReduceProd"  ? CheckedMul(*total, value)
            : node.op == "ReduceSum" ? CheckedAdd(*total, value)
            : node.op == "ReduceMax" ? std::max(*total, value)
                                     : std::min(*total, value);
  }
  if (!total) return std::nullopt;
  return IntegerArray(IntegerOf(node, "keepdims", 1) != 0 ? Dims{1} : Dims{}, {*total}, x->dtype);
}

// Positions of the elements that are not zero: how exports of before opset 11's Range count.
Folded NonZero(const Node&, const KnownInputs& inputs) {
  const Array* x = InputAt(inputs, 0);
  if (x == nullptr || x->shape.size() != 1) return std::nullopt;
  const auto count = KnownCount(x->shape, false);
  if (!count) return std::nullopt;
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < *count; ++i) {
    if (x->number(i) != 0) positions.push_back(i);
  }
  return IntegerArray({1, static_cast<std::int64_t>(positions.size())}, positions);
}

const std::unordered_map<std::string_view, FoldRule> kRules = {
    {"ConstantOfShape", ConstantOfShape},
    {"Cast", Cast},
    {"CastLike", CastLike},
    {"Range", Range},
    {"ReduceProd", Reduce},
    {"ReduceSum", Reduce},
    {"ReduceMax", Reduce},
    {"ReduceMin", Reduce},
    {"NonZero", NonZero},
};

FoldRule FindRule(const Node& node) {
  if (FoldRule rule = FindArithmeticRule(node.op)) return rule;
  if (FoldRule rule = FindShapeRule(node.op)) return rule;
  auto found = kRules.find(node.op);
  return found == kRules.end() ? nullptr : found->second;
}

}  // namespace

bool IsFoldable(const Node& node) { return FindRule(node) != nullptr; }

Folded Fold(const Node& node, const KnownInputs& inputs) {
  const FoldRule rule = FindRule(node);
  return rule ? rule(node, inputs) : std::nullopt;
}

}  // namespace ebbtide::model::onnx
