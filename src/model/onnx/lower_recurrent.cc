// LSTM of one direction, as patterns/lstm.cc leaves it: input, weights of input and hidden state, biases.
#include "model/onnx/lower.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

// A weight [gates, width], or [1, gates, width] as ONNX stacks directions.
Result<TensorId> GateWeight(Call& call, std::size_t i, std::int64_t gates) {
  EBB_ASSIGN_OR_RETURN(TensorId weight, call.Tensor(i));
  if (call.b.shape(weight).size() == 3 && call.b.dim(weight, 0) == 1) weight = op::Squeeze(call.b, weight, 0);
  if (call.b.shape(weight).size() != 2 || call.b.dim(weight, 0) != gates) {
    return call.Wrong(
        fmt::format("input {} {}: expected [{}, width] of one direction", i, ShapeText(call.b.shape(weight)), gates));
  }
  return weight;
}

Status Lstm(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  Builder& b = call.b;
  const std::int64_t hidden = call.Int("hidden_size", 0);
  if (hidden < 1 || hidden > kMostElements / 8) return call.Wrong("hidden_size: expected a positive number");
  if (call.Text("direction", "forward") != "forward") return call.Wrong("direction: expected forward");
  if (call.Int("layout", 0) != 0) return call.Wrong("layout: expected 0");
  if (b.shape(x).size() != 3)
    return call.Wrong(fmt::format("input {}: expected [length, batch, width]", ShapeText(b.shape(x))));
  op::LstmWeights weights;
  EBB_ASSIGN_OR_RETURN(weights.input, GateWeight(call, 1, 4 * hidden));
  EBB_ASSIGN_OR_RETURN(weights.hidden, GateWeight(call, 2, 4 * hidden));
  if (b.dim(weights.input, 1) != b.dim(x, 2) || b.dim(weights.hidden, 1) != hidden) {
    return call.Wrong(fmt::format("weights {} and {}: expected ones for input {} and hidden size {}",
                                  ShapeText(b.shape(weights.input)), ShapeText(b.shape(weights.hidden)), b.dim(x, 2),
                                  hidden));
  }
  if (!call.Has(3)) return call.Wrong("biases: expected an LSTM with them");
  EBB_ASSIGN_OR_RETURN(weights.input_bias, call.Tensor(3));
  if (call.Has(4)) {
    EBB_ASSIGN_OR_RETURN(weights.hidden_bias, call.Tensor(4));
  } else {  // both in one
    if (ElementCount(b.shape(weights.input_bias)) != 8 * hidden) {
      return call.Wrong(
          fmt::format("bias {}: expected {} elements", ShapeText(b.shape(weights.input_bias)), 8 * hidden));
    }
    TensorId both = op::Reshape(b, weights.input_bias, {2, 4 * hidden});
    weights.input_bias = op::Select(b, both, 0, 0);
    weights.hidden_bias = op::Select(b, both, 0, 1);
  }
  for (TensorId bias : {weights.input_bias, weights.hidden_bias}) {
    if (b.shape(bias) != Dims{4 * hidden}) {
      return call.Wrong(fmt::format("bias {}: expected [{}]", ShapeText(b.shape(bias)), 4 * hidden));
    }
  }
  TensorId out = op::Lstm(b, op::Contiguous(b, x), {weights}, 0);
  // The last states, which torch returns beside the outputs.
  for (std::size_t i : {1, 2}) {
    if (call.Wants(i)) EBB_RETURN_IF_ERROR(call.Set(i, op::Slice(b, out, 0, -1, b.dim(out, 0))));
  }
  return call.Set(0, op::Unsqueeze(b, out, 1));
}

constexpr OperatorRow kRules[] = {{"ebbtide.Lstm", 3, 5, Lstm}};

}  // namespace

std::span<const OperatorRow> RecurrentRules() { return kRules; }

}  // namespace ebbtide::model::onnx
