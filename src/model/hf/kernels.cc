// One op per kernel; gradient_rules.cc says what each saves and where its gradient goes.
#include "model/hf/kernels.h"

#include <algorithm>

#include "model/ops.h"

namespace ebbtide::model::hf {
namespace {

std::int64_t PowerOfTwo(std::int64_t least) {
  std::int64_t power = 1;
  while (power < least) power *= 2;
  return power;
}

// Rows that Liger's loss computes at a time: the scores of so many take about as much as x itself.
std::int64_t RowsAtATime(std::int64_t rows, std::int64_t width, std::int64_t words) {
  const std::int64_t parts = (words + width - 1) / width;
  return std::min(rows, PowerOfTwo((rows + parts - 1) / parts));
}

}  // namespace

TensorId FusedRmsNorm(Builder& b, const std::string& name, TensorId x) {
  auto layer = b.Enter(name);
  const bool trains_weight = b.options().kernels == KernelSet::kLiger;
  const DType dtype = b.options().dtype.value_or(DType::kFloat32);
  const Dims width = {b.dim(x, -1)};
  TensorId weight = trains_weight ? b.Parameter("weight", width) : b.FrozenParameter("weight", width, dtype);
  const std::int64_t rows = ElementCount(b.shape(x)) / width[0];
  return b.Call("triton_rms_norm", {{"input", x}, {"weight", weight}},
                {{b.shape(x), b.at(x).dtype}, {{rows}, DType::kFloat32}})[0];
}

TensorId FusedRotary(Builder& b, TensorId x, TensorId cosine, TensorId sine) {
  return b.InPlace("triton_rope_", x, {{"cos", cosine}, {"sin", sine}});
}

TensorId FusedGate(Builder& b, TensorId gate, TensorId up) {
  return b.CallOne("triton_silu_mul", {{"self", gate}, {"other", up}}, {b.shape(gate), b.at(gate).dtype});
}

TensorId FusedCrossEntropy(Builder& b, TensorId scores, TensorId labels) {
  constexpr std::int64_t kWordsPerBlock = 65536;
  const std::int64_t rows = b.dim(scores, 0), blocks = (b.dim(scores, 1) + kWordsPerBlock - 1) / kWordsPerBlock;
  TensorId losses = b.Call("triton_cross_entropy", {{"self", scores}, {"target", labels}},
                           {{{rows}, DType::kFloat32}, {{rows, blocks}, DType::kFloat32}})[0];
  return op::WithScalar(b, "div", op::Sum(b, losses, {}, false), 1);
}

TensorId LinearCrossEntropy(Builder& b, LossKernel kernel, TensorId x, TensorId weight, TensorId labels) {
  const std::int64_t rows = b.dim(x, 0), width = b.dim(x, 1), words = b.dim(weight, 0);
  const DType dtype = b.at(x).dtype;
  if (kernel == LossKernel::kChunked) {
    TensorId losses = b.Call("cut_cross_entropy", {{"self", x}, {"weight", weight}, {"target", labels}},
                             {{{rows}, DType::kFloat32}, {{rows}, DType::kFloat32}})[0];
    b.graph().ops.back().flops = SaturatingMul(SaturatingMul(2 * rows, width), words);
    return op::Mean(b, losses, {}, false);
  }
  std::vector<OutputSpec> outputs = {{{}, DType::kFloat32}, {b.shape(x), dtype}};
  if (b.NeedsGrad(weight)) outputs.push_back({b.shape(weight), b.at(weight).dtype});
  TensorId loss = b.Call("liger_linear_cross_entropy", {{"self", x}, {"weight", weight}, {"target", labels}},
                         std::move(outputs))[0];
  Op& op = b.graph().ops.back();
  const std::int64_t at_a_time = RowsAtATime(rows, width, words);
  // Scores of so many rows, and the same in float32 for the loss; or, in float32 already, their gradient.
  const Bytes per_score = ItemSize(dtype) + ItemSize(DType::kFloat32);
  op.workspace = SaturatingMul(SaturatingMul(at_a_time, words), per_score) + rows * ItemSize(DType::kFloat32);
  op.flops = SaturatingMul(SaturatingMul(b.NeedsGrad(weight) ? 6 * rows : 4 * rows, width), words);
  return loss;
}

}  // namespace ebbtide::model::hf
