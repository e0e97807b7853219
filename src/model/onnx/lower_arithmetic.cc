// Element-wise operators of two and more tensors, and casts.
#include <unordered_map>

#include "model/onnx/lower.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

struct BinaryRow {
  const char* kind;
  bool gives_bool = false;
};

const std::unordered_map<std::string_view, BinaryRow> kBinary = {
    {"Add", {"add"}},
    {"Sub", {"sub"}},
    {"Mul", {"mul"}},
    {"Div", {"div"}},
    {"Pow", {"pow"}},
    {"Mod", {"remainder"}},
    {"Max", {"maximum"}},
    {"Min", {"minimum"}},
    {"Sum", {"add"}},
    {"Equal", {"eq", true}},
    {"Less", {"lt", true}},
    {"LessOrEqual", {"le", true}},
    {"Greater", {"gt", true}},
    {"GreaterOrEqual", {"ge", true}},
    {"And", {"logical_and", true}},
    {"Or", {"logical_or", true}},
    {"Xor", {"logical_xor", true}},
};

Status CheckBroadcast(const Call& call, const Dims& a, const Dims& b) {
  if (Broadcast(a, b)) return {};
  return call.Wrong(fmt::format("{} and {}: expected shapes that broadcast", ShapeText(a), ShapeText(b)));
}

// torch adds a residual into the branch's batch norm output, which nothing else reads: out += identity.
bool AddsInPlace(const Call& call, TensorId x, TensorId y) {
  if (call.node.op != "Add" || call.b.shape(x).size() < 4 || call.b.shape(x) != call.b.shape(y)) return false;
  const Node* maker = call.MakerForThisAlone(0);
  return maker && maker->op == "BatchNormalization" && call.b.NeedsGrad(x) && x != y;
}

TensorId Combine(Call& call, const BinaryRow& row, TensorId x, TensorId y) {
  if (row.gives_bool) return op::Compare(call.b, row.kind, x, y);
  if (AddsInPlace(call, x, y)) return op::BinaryInPlace(call.b, "add_", x, y);
  return op::Binary(call.b, row.kind, x, y);
}

// With a number in place of a tensor, as a framework writes it. nullopt: there is no such form.
std::optional<TensorId> WithNumber(Call& call, const BinaryRow& row, TensorId x, double number, bool number_first) {
  Builder& b = call.b;
  const std::string_view op = call.node.op;
  if (row.gives_bool) {
    return b.CallOne(row.kind, {{"self", x}, {"other", number}}, {b.shape(x), DType::kBool});
  }
  if (op == "Max" || op == "Min") return op::Unary(b, "clamp", x);
  if (op == "Mod" && number_first) return std::nullopt;
  if (op == "Pow" && number_first) return op::Unary(b, "exp", x);
  if (op == "Pow" && number == 0.5) return op::Unary(b, "sqrt", x);
  if (op == "Pow") return op::Unary(b, "pow", x, {{"exponent", number}});
  if (op == "Sub" && number_first) return op::WithScalar(b, "rsub", x, number);
  if (op == "Div" && number_first) {
    TensorId inverse = op::Unary(b, "reciprocal", x);
    return number == 1 ? inverse : op::WithScalar(b, "mul", inverse, number);
  }
  return op::WithScalar(b, row.kind, x, number);
}

Status Binary(Call& call) {
  const BinaryRow& row = kBinary.at(call.node.op);
  TensorId result;
  for (std::size_t i = 0; i < call.node.inputs.size(); ++i) {
    EBB_ASSIGN_OR_RETURN(const Dims shape, call.Shape(i));
    if (i == 0) {
      // The first operand alone is a number: f(number, tensor).
      if (call.Number(0) && call.node.inputs.size() == 2 && !call.Contents(1)) {
        EBB_ASSIGN_OR_RETURN(const Dims other, call.Shape(1));
        EBB_RETURN_IF_ERROR(CheckBroadcast(call, shape, other));
        if (*Broadcast(shape, other) == other) {
          EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(1));
          if (auto with_number = WithNumber(call, row, x, *call.Number(0), true)) return call.Set(0, *with_number);
        }
      }
      EBB_ASSIGN_OR_RETURN(result, call.Tensor(0));
      continue;
    }
    EBB_RETURN_IF_ERROR(CheckBroadcast(call, call.b.shape(result), shape));
    if (call.Number(i) && *Broadcast(call.b.shape(result), shape) == call.b.shape(result)) {
      result = *WithNumber(call, row, result, *call.Number(i), false);
      continue;
    }
    EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(i));
    result = Combine(call, row, result, x);
  }
  return call.Set(0, result);
}

// The mean of several tensors.
Status MeanOfAll(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId sum, call.Tensor(0));
  for (std::size_t i = 1; i < call.node.inputs.size(); ++i) {
    EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(i));
    EBB_RETURN_IF_ERROR(CheckBroadcast(call, call.b.shape(sum), call.b.shape(x)));
    sum = op::Add(call.b, sum, x);
  }
  return call.Set(0, op::WithScalar(call.b, "div", sum, static_cast<double>(call.node.inputs.size())));
}

Status Test(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  const char* kind = call.node.op == "Not" ? "logical_not" : call.node.op == "IsNaN" ? "isnan" : "isinf";
  return call.Set(0, call.b.CallOne(kind, {{"self", x}}, {call.b.shape(x), DType::kBool}));
}

Status Where(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId condition, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(1));
  EBB_ASSIGN_OR_RETURN(TensorId y, call.Tensor(2));
  EBB_RETURN_IF_ERROR(CheckBroadcast(call, call.b.shape(x), call.b.shape(y)));
  EBB_RETURN_IF_ERROR(CheckBroadcast(call, call.b.shape(condition), *Broadcast(call.b.shape(x), call.b.shape(y))));
  return call.Set(0, op::Where(call.b, condition, x, y));
}

Status Cast(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  const std::int64_t number = call.Int("to", 0);
  const auto dtype = TypeFromNumber(number);
  if (!dtype) return call.Wrong(fmt::format("to {}: expected a type that torch has", number));
  return call.Set(0, op::Cast(call.b, x, *dtype));
}

Status CastLike(Call& call) {
  EBB_ASSIGN_OR_RETURN(const DType dtype, call.Type(1));
  if (const Array* contents = call.Contents(0)) {
    if (Folded converted = Converted(*contents, dtype)) return call.SetContents(0, std::move(*converted));
  }
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  return call.Set(0, op::Cast(call.b, x, dtype));
}

constexpr OperatorRow kRules[] = {
    {"Add", 2, 2, Binary},
    {"Sub", 2, 2, Binary},
    {"Mul", 2, 2, Binary},
    {"Div", 2, 2, Binary},
    {"Pow", 2, 2, Binary},
    {"Mod", 2, 2, Binary},
    {"Max", 1, kAnyNumber, Binary},
    {"Min", 1, kAnyNumber, Binary},
    {"Sum", 1, kAnyNumber, Binary},
    {"Mean", 1, kAnyNumber, MeanOfAll},
    {"Equal", 2, 2, Binary},
    {"Less", 2, 2, Binary},
    {"LessOrEqual", 2, 2, Binary},
    {"Greater", 2, 2, Binary},
    {"GreaterOrEqual", 2, 2, Binary},
    {"And", 2, 2, Binary},
    {"Or", 2, 2, Binary},
    {"Xor", 2, 2, Binary},
    {"Not", 1, 1, Test},
    {"IsNaN", 1, 1, Test},
    {"IsInf", 1, 1, Test},
    {"Where", 3, 3, Where},
    {"Cast", 1, 1, Cast},
    {"CastLike", 2, 2, CastLike},
};

}  // namespace

std::span<const OperatorRow> ArithmeticRules() { return kRules; }

}  // namespace ebbtide::model::onnx
