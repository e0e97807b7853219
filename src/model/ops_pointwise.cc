// Element-wise operators: broadcasting, layout of the result as torch's iterator chooses it.
#include "model/autocast_rules.h"
#include "model/ops.h"

namespace ebbtide::model::op {

namespace {

// The first operand that already has the result's shape decides the order of the axes in memory.
OutputSpec ResultOf(const Builder& b, const std::vector<TensorId>& operands, std::optional<DType> dtype = {}) {
  Dims shape;
  DType widest = DType::kBool;
  for (TensorId id : operands) {
    shape = BroadcastShape(shape, b.shape(id));
    // A tensor without axes does not widen one with axes.
    if (b.at(id).dtype > widest && (operands.size() == 1 || !b.shape(id).empty() || widest == DType::kBool)) {
      widest = b.at(id).dtype;
    }
  }
  Dims stride = ContiguousStride(shape);
  for (TensorId id : operands) {
    if (b.shape(id) == shape) {
      stride = StrideLike(b.at(id), shape);
      break;
    }
  }
  return {shape, dtype.value_or(widest), stride};
}

Arguments Prepend(std::initializer_list<Argument> first, Arguments rest) {
  Arguments all(first);
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

}  // namespace

TensorId Pointwise(Builder& b, const std::string& kind, const std::vector<TensorId>& operands, Arguments arguments) {
  static constexpr const char* kNames[] = {"self", "other", "third"};
  Arguments all;
  for (std::size_t i = 0; i < operands.size(); ++i) all.push_back({kNames[i], operands[i]});
  all.insert(all.end(), arguments.begin(), arguments.end());
  OutputSpec result = ResultOf(b, operands);
  if (kind == "ge" || kind == "eq") result.dtype = DType::kBool;
  return b.CallOne(kind, std::move(all), result);
}

TensorId Unary(Builder& b, const std::string& kind, TensorId x, Arguments arguments) {
  Autocast(b, kind, {&x});
  return b.CallOne(kind, Prepend({{"self", x}}, std::move(arguments)), ResultOf(b, {x}));
}

TensorId UnaryInPlace(Builder& b, const std::string& kind, TensorId x, Arguments arguments) {
  return b.InPlace(kind, x, std::move(arguments));
}

TensorId UnaryInPlaceKeepingInput(Builder& b, const std::string& kind, TensorId x, Arguments arguments) {
  if (!b.NeedsGrad(x)) return b.InPlace(kind, x, std::move(arguments));
  TensorId copy = Clone(b, x);
  TensorId result = b.InPlace(kind, x, std::move(arguments));
  b.SaveForBackward("original", copy);
  return result;
}

TensorId Binary(Builder& b, const std::string& kind, TensorId x, TensorId y, Arguments arguments) {
  Autocast(b, kind, {&x, &y});
  return b.CallOne(kind, Prepend({{"self", x}, {"other", y}}, std::move(arguments)), ResultOf(b, {x, y}));
}

TensorId BinaryInPlace(Builder& b, const std::string& kind, TensorId x, TensorId y, Arguments arguments) {
  return b.InPlace(kind, x, Prepend({{"other", y}}, std::move(arguments)));
}

TensorId WithScalar(Builder& b, const std::string& kind, TensorId x, double scalar) {
  return b.CallOne(kind, {{"self", x}, {"other", scalar}}, ResultOf(b, {x}));
}

TensorId Compare(Builder& b, const std::string& kind, TensorId x, TensorId y) {
  return b.CallOne(kind, {{"self", x}, {"other", y}}, ResultOf(b, {x, y}, DType::kBool));
}

TensorId Where(Builder& b, TensorId condition, TensorId x, TensorId y) {
  OutputSpec result = ResultOf(b, {condition, x, y});
  result.dtype = b.at(x).dtype;
  return b.CallOne("where", {{"condition", condition}, {"self", x}, {"other", y}}, result);
}

TensorId Cast(Builder& b, TensorId x, DType dtype) {
  if (b.at(x).dtype == dtype) return x;
  return b.CallOne("_to_copy", {{"self", x}, {"dtype", Named{"dtype", std::string(Name(dtype))}}},
                   ResultOf(b, {x}, dtype));
}

TensorId Add(Builder& b, TensorId x, TensorId y) { return Binary(b, "add", x, y); }
TensorId Mul(Builder& b, TensorId x, TensorId y) { return Binary(b, "mul", x, y); }
TensorId Relu(Builder& b, TensorId x) { return Unary(b, "relu", x); }
TensorId ReluInPlace(Builder& b, TensorId x) { return UnaryInPlace(b, "relu_", x); }
TensorId Gelu(Builder& b, TensorId x) { return Unary(b, "gelu", x, {{"approximate", std::string("none")}}); }
TensorId GeluTanh(Builder& b, TensorId x) { return Unary(b, "gelu", x, {{"approximate", std::string("tanh")}}); }

TensorId Softmax(Builder& b, TensorId x, std::int64_t dim) {
  DType dtype = AutocastResult(b, "softmax", x);
  return b.CallOne("_softmax", {{"self", x}, {"dim", dim}}, {b.shape(x), dtype});
}

TensorId LogSoftmax(Builder& b, TensorId x, std::int64_t dim) {
  DType dtype = AutocastResult(b, "log_softmax", x);
  return b.CallOne("_log_softmax", {{"self", x}, {"dim", dim}}, {b.shape(x), dtype});
}

}  // namespace ebbtide::model::op
