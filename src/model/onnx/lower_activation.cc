// Activations and other functions of one tensor.
#include <algorithm>
#include <unordered_map>

#include "model/onnx/lower.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

struct UnaryRow {
  const char* kind;
  const char* in_place = nullptr;  // the form that convolutional networks use, where there is one
  bool copies_input = false;       // whose gradient needs the input, so that torch keeps a copy of it
};

const std::unordered_map<std::string_view, UnaryRow> kUnary = {
    {"Relu", {"relu", "relu_"}},
    {"LeakyRelu", {"leaky_relu", "leaky_relu_"}},
    {"Elu", {"elu", "elu_"}},
    {"Celu", {"elu", "elu_"}},
    {"Selu", {"elu", "elu_"}},
    {"ThresholdedRelu", {"relu"}},
    {"HardSwish", {"hardswish", "hardswish_", true}},
    {"Swish", {"silu", "silu_", true}},
    {"HardSigmoid", {"hardsigmoid"}},
    {"Sigmoid", {"sigmoid"}},
    {"Tanh", {"tanh"}},
    {"Softplus", {"softplus"}},
    {"Mish", {"mish"}},
    {"Erf", {"erf"}},
    {"Exp", {"exp"}},
    {"Log", {"log"}},
    {"Sqrt", {"sqrt"}},
    {"Reciprocal", {"reciprocal"}},
    {"Neg", {"neg"}},
    {"Abs", {"abs"}},
    {"Sin", {"sin"}},
    {"Cos", {"cos"}},
    {"Sign", {"sign"}},
    {"Floor", {"floor"}},
    {"Ceil", {"ceil"}},
    {"Round", {"round"}},
};

// An ONNX file does not say whether an activation ran in place. torchvision's and timm's convolutional networks do so
// behind convolutions, batch norms and sums; language models do not. Only an output that nothing else reads can be
// overwritten, and only one that its own gradient does not need.
bool RunsInPlace(const Call& call, TensorId x) {
  const Node* maker = call.MakerForThisAlone(0);
  if (!maker || call.b.shape(x).size() < 4) return false;
  const bool unneeded = maker->op == "Conv" || maker->op == "ConvTranspose" || maker->op == "BatchNormalization" ||
                        (maker->op == "Add" && IsDense(call.b.at(x)));
  return unneeded && call.b.NeedsGrad(x);
}

TensorId Activate(Call& call, TensorId x, const UnaryRow& row, const Arguments& arguments = {}) {
  if (!row.in_place || !RunsInPlace(call, x)) return op::Unary(call.b, row.kind, x, arguments);
  return row.copies_input ? op::UnaryInPlaceKeepingInput(call.b, row.in_place, x, arguments)
                          : op::UnaryInPlace(call.b, row.in_place, x, arguments);
}

Status Unary(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  return call.Set(0, Activate(call, x, kUnary.at(call.node.op)));
}

Status Clip(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  const bool both = call.Number(1) && call.Number(2);
  if (both && *call.Number(1) == 0 && *call.Number(2) == 6) {
    return call.Set(0, Activate(call, x, {"hardtanh", "hardtanh_", true}, {{"min_val", 0.0}, {"max_val", 6.0}}));
  }
  return call.Set(0, op::Unary(call.b, "clamp", x));
}

Status Gelu(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  return call.Set(0, call.Text("approximate", "none") == "tanh" ? op::GeluTanh(call.b, x) : op::Gelu(call.b, x));
}

Status PRelu(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(TensorId slope, call.Tensor(1));
  if (Broadcast(call.b.shape(x), call.b.shape(slope)) != call.b.shape(x)) {
    return call.Wrong(fmt::format("slope {}: expected one that broadcasts to {}", ShapeText(call.b.shape(slope)),
                                  ShapeText(call.b.shape(x))));
  }
  const Tensor like = call.b.at(x);
  return call.Set(0, call.b.CallOne("_prelu_kernel", {{"self", x}, {"weight", slope}}, {like.shape, like.dtype}));
}

// x / (1 + |x|), as torch computes it.
Status Softsign(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  TensorId below = op::WithScalar(call.b, "add", op::Unary(call.b, "abs", x), 1);
  return call.Set(0, op::Binary(call.b, "div", x, below));
}

Status Softmax(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  const auto axis = NormalAxis(call.Int("axis", call.opset() < 13 ? 1 : -1), call.b.shape(x).size());
  if (!axis) return call.Wrong(fmt::format("axis: expected one of {}", ShapeText(call.b.shape(x))));
  return call.Set(0, call.node.op == "Softmax" ? op::Softmax(call.b, x, *axis) : op::LogSoftmax(call.b, x, *axis));
}

// Every Dropout is one in training, whatever the mode the file was made in.
Status Dropout(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  const double ratio = call.Number(1).value_or(call.Float("ratio", 0.5));
  if (!(ratio >= 0 && ratio < 1))
    return call.Wrong(fmt::format("ratio {}: expected 0 or more, and less than 1", ratio));
  return call.Set(0, op::Dropout(call.b, x, ratio));
}

constexpr OperatorRow kRules[] = {
    {"Relu", 1, 1, Unary},      {"LeakyRelu", 1, 1, Unary},    {"Elu", 1, 1, Unary},
    {"Celu", 1, 1, Unary},      {"Selu", 1, 1, Unary},         {"ThresholdedRelu", 1, 1, Unary},
    {"HardSwish", 1, 1, Unary}, {"Swish", 1, 1, Unary},        {"HardSigmoid", 1, 1, Unary},
    {"Sigmoid", 1, 1, Unary},   {"Tanh", 1, 1, Unary},         {"Softplus", 1, 1, Unary},
    {"Mish", 1, 1, Unary},      {"Erf", 1, 1, Unary},          {"Exp", 1, 1, Unary},
    {"Log", 1, 1, Unary},       {"Sqrt", 1, 1, Unary},         {"Reciprocal", 1, 1, Unary},
    {"Neg", 1, 1, Unary},       {"Abs", 1, 1, Unary},          {"Sin", 1, 1, Unary},
    {"Cos", 1, 1, Unary},       {"Sign", 1, 1, Unary},         {"Floor", 1, 1, Unary},
    {"Ceil", 1, 1, Unary},      {"Round", 1, 1, Unary},        {"Clip", 1, 3, Clip},
    {"Gelu", 1, 1, Gelu},       {"PRelu", 2, 2, PRelu},        {"Softsign", 1, 1, Softsign},
    {"Softmax", 1, 1, Softmax}, {"LogSoftmax", 1, 1, Softmax}, {"Dropout", 1, 3, Dropout},
};

}  // namespace

std::span<const OperatorRow> ActivationRules() { return kRules; }

}  // namespace ebbtide::model::onnx
