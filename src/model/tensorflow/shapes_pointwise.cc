// Shapes of element-wise operators, and their contents where those are known.
#include "model/tensorflow/fold.h"
#include "model/tensorflow/inference.h"

namespace ebbtide::model::tensorflow {
namespace {

constexpr Type kBool = {Kind::kNumbers, DType::kBool};

Result<Dims> BroadcastOf(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  const auto shape = Broadcast(at.Shape(0), at.Shape(1));
  if (!shape) return Fail("expected shapes that broadcast");
  return *shape;
}

// The operand that the result equals, by what Grappler simplifies: x * 1, x / 1, x + 0, x - 0. inputs(): none.
std::size_t EqualOperand(Inference& at, const Dims& shape) {
  const std::string& op = at.op();
  const bool is_sum = op == "AddV2" || op == "Add", is_product = op == "Mul";
  for (std::size_t i = 0; i < 2; ++i) {
    const Array* other = at.Known(1 - i);
    const bool may = is_sum || is_product || (i == 0 && (op == "Sub" || op == "RealDiv"));
    const double neutral = is_product || op == "RealDiv" ? 1 : 0;
    if (may && other && other->is_uniform() && other->number(0) == neutral && at.Shape(i) == shape) return i;
  }
  return at.inputs();
}

}  // namespace

Status InferSame(Inference& at) {
  if (at.inputs() == 0) return Fail("expected an input");
  const Array* known = at.inputs() == 1 ? at.Known(0) : nullptr;
  at.Yield(at.TypeOf(0), at.Shape(0), known ? FoldUnary(at.op(), *known) : std::nullopt);
  return {};
}

Status InferIdentity(Inference& at) {
  if (at.inputs() == 0) return Fail("expected an input");
  at.YieldSame(at.node().inputs[0]);
  return {};
}

Status InferSameAsSecond(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2, 8));
  at.Yield(at.TypeOf(1), at.Shape(1));
  return {};
}

Status InferBroadcast(Inference& at) {
  EBB_ASSIGN_OR_RETURN(Dims shape, BroadcastOf(at));
  const Array *a = at.Known(0), *b = at.Known(1);
  if (const std::size_t operand = EqualOperand(at, shape); operand < at.inputs() && !(a && b)) {
    at.YieldSame(at.node().inputs[operand]);
    return {};
  }
  std::optional<Array> known = a && b ? FoldBinary(at.op(), *a, *b, shape) : std::nullopt;
  at.Yield(at.TypeOf(0), std::move(shape), std::move(known));
  return {};
}

Status InferCompare(Inference& at) {
  EBB_ASSIGN_OR_RETURN(Dims shape, BroadcastOf(at));
  const Array *a = at.Known(0), *b = at.Known(1);
  std::optional<Array> known = a && b ? FoldCompare(at.op(), *a, *b, shape) : std::nullopt;
  at.Yield(kBool, std::move(shape), std::move(known));
  return {};
}

Status InferCast(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1));
  const Type to = at.TypeFrom("DstT", at.TypeOf(0));
  const Array* known = at.Known(0);
  at.Yield(to, at.Shape(0), known ? FoldCast(*known, to.dtype) : std::nullopt);
  return {};
}

Status InferSelect(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(3));
  const auto shape = Broadcast(at.Shape(1), at.Shape(2));
  if (!shape) return Fail("expected shapes that broadcast");
  // Select, the older one, takes a vector of conditions for rows.
  const auto whole = at.op() == "Select" ? shape : Broadcast(at.Shape(0), *shape);
  if (!whole) return Fail("expected a condition that broadcasts");
  const Array* condition = at.Known(0);
  std::optional<Array> known;
  if (condition && condition->is_uniform() && !condition->is_real()) {
    const std::size_t chosen = condition->integer(0) ? 1 : 2;
    if (at.Known(chosen) && at.Shape(chosen) == *whole) known = *at.Known(chosen);
  }
  at.Yield(at.TypeOf(1), *whole, std::move(known));
  return {};
}

Status InferBiasGradient(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1));
  const Dims& shape = at.Shape(0);
  if (shape.size() < 2) return Fail("expected at least 2 axes, found {}", shape.size());
  at.Yield(at.TypeOf(0), {at.Text("data_format", "NHWC") == "NCHW" ? shape[1] : shape.back()});
  return {};
}

// The loss of each row and the gradient of the logits.
Status InferCrossEntropy(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  EBB_ASSIGN_OR_RETURN(Dims logits, at.Shape(0, 2));
  const Type type = at.TypeOf(0);
  at.Yield(type, {logits[0]});
  at.Yield(type, std::move(logits));
  return {};
}

Status InferZeros(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1));
  if (at.TypeOf(0).kind == Kind::kVariant) {
    // A list of zeros has as many items, none of which is set.
    EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> items, at.List(0));
    at.YieldList(std::vector<ValueId>(items.size(), kNone));
    return {};
  }
  const Type type = at.TypeOf(0);
  Dims shape = at.Shape(0);
  const double value = at.op() == "OnesLike" ? 1 : 0;
  Array known = IsFloating(type.dtype) ? RealArray(shape, {value}, type.dtype)
                                       : IntegerArray(shape, {static_cast<std::int64_t>(value)}, type.dtype);
  at.Yield(type, std::move(shape), std::move(known));
  return {};
}

}  // namespace ebbtide::model::tensorflow
