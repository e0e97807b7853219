// A formula for each kind of op that multiplies matrices.
#include "model/flops.h"

#include <string_view>
#include <unordered_map>

#include "model/builder.h"

namespace ebbtide::model {

namespace {

const Dims& ShapeOf(const TrainingGraph& graph, const Op& op, std::string_view name) {
  static const Dims kNone;
  TensorId id = TensorArgument(op, name);
  return id.valid() ? graph.tensor(id).shape : kNone;
}

std::int64_t Product(std::initializer_list<std::int64_t> factors) { return ElementCount(Dims(factors)); }

bool IsTransposed(const Op& op) {
  const Value* value = FindArgument(op, "transposed");
  const bool* transposed = value ? std::get_if<bool>(value) : nullptr;
  return transposed && *transposed;
}

std::int64_t Mm(const TrainingGraph& graph, const Op& op) {
  const Dims& x = ShapeOf(graph, op, op.kind == "addmm" ? "mat1" : "self");
  const Dims& y = ShapeOf(graph, op, "mat2");
  return Product({2, x[0], x[1], y[1]});
}

std::int64_t Bmm(const TrainingGraph& graph, const Op& op) {
  const Dims& x = ShapeOf(graph, op, op.kind == "baddbmm" ? "batch1" : "self");
  const Dims& y = ShapeOf(graph, op, op.kind == "baddbmm" ? "batch2" : "mat2");
  return Product({2, x[0], x[1], x[2], y[2]});
}

// Every weight element is used once per image and position of the smaller-strided side.
std::int64_t ConvolutionOnce(const Dims& in, const Dims& weight, const Dims& out, bool transposed) {
  const Dims& positions = transposed ? in : out;
  std::int64_t flops = Product({2, in[0], ElementCount(weight)});
  for (std::size_t axis = 2; axis < positions.size(); ++axis) flops = SaturatingMul(flops, positions[axis]);
  return flops;
}

std::int64_t Convolution(const TrainingGraph& graph, const Op& op) {
  return ConvolutionOnce(ShapeOf(graph, op, "input"), ShapeOf(graph, op, "weight"), graph.tensor(op.outputs[0]).shape,
                         IsTransposed(op));
}

// As much again for the gradient of the input and for that of the weight.
std::int64_t ConvolutionBackward(const TrainingGraph& graph, const Op& op) {
  const Dims &in = ShapeOf(graph, op, "input"), &weight = ShapeOf(graph, op, "weight");
  std::int64_t once = ConvolutionOnce(in, weight, ShapeOf(graph, op, "grad"), IsTransposed(op));
  std::int64_t times = 0;
  for (TensorId id : op.outputs) times += graph.tensor(id).shape == in || graph.tensor(id).shape == weight;
  return SaturatingMul(once, times);
}

std::int64_t AttentionProducts(const Dims& q, const Dims& k, const Dims& v, int with_key, int with_value) {
  std::int64_t scores = Product({2, q[0], q[1], q[2], k[2]});
  return SaturatingMul(scores, with_key * q[3]) + SaturatingMul(scores, with_value * v[3]);
}

std::int64_t Attention(const TrainingGraph& graph, const Op& op) {
  return AttentionProducts(ShapeOf(graph, op, "query"), ShapeOf(graph, op, "key"), ShapeOf(graph, op, "value"), 1, 1);
}

// Scores again, then the gradients of the weights, value, query and key.
std::int64_t AttentionBackward(const TrainingGraph& graph, const Op& op) {
  return AttentionProducts(ShapeOf(graph, op, "query"), ShapeOf(graph, op, "key"), ShapeOf(graph, op, "value"), 3, 2);
}

using Rule = std::int64_t (*)(const TrainingGraph&, const Op&);
const std::unordered_map<std::string_view, Rule> kRules = {
    {"mm", Mm},
    {"addmm", Mm},
    {"bmm", Bmm},
    {"baddbmm", Bmm},
    {"convolution", Convolution},
    {"convolution_backward", ConvolutionBackward},
    {"_scaled_dot_product_flash_attention_for_cpu", Attention},
    {"_scaled_dot_product_flash_attention", Attention},
    {"_scaled_dot_product_efficient_attention", Attention},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", AttentionBackward},
    {"_scaled_dot_product_flash_attention_backward", AttentionBackward},
    {"_scaled_dot_product_efficient_attention_backward", AttentionBackward},
};

}  // namespace

std::int64_t CountFlops(const TrainingGraph& graph, const Op& op) {
  auto rule = kRules.find(op.kind);
  return rule == kRules.end() ? 0 : rule->second(graph, op);
}

}  // namespace ebbtide::model
