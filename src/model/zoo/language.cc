// The parts op by op, as transformers' modules call them.
#include "model/zoo/language.h"

namespace ebbtide::model::zoo {

TokenBatch TokenInput(Builder& b, const Sizes& sizes) {
  b.graph().loss_in_model = true;
  b.graph().meta["loss"] = "model";
  TensorId tokens = b.Input("input_ids", {sizes.batch, sizes.seq_len}, DType::kInt64);
  return {tokens, b.Label("labels", {sizes.batch, sizes.seq_len})};
}

TensorId Words(Builder& b, TensorId embedded) {
  const bool has_blocks_recomputed = b.options().checkpoint && b.options().checkpoint->empty();
  if (has_blocks_recomputed && !b.inference()) b.set_needs_grad(embedded, true);
  return embedded;
}

TensorId Positions(Builder& b, std::int64_t length) {
  return op::Unsqueeze(b, op::WithScalar(b, "add", op::Arange(b, length), 0), 0);
}

TensorId SplitHeads(Builder& b, TensorId x, std::int64_t head_width) {
  x = op::Reshape(b, x, {b.dim(x, 0), b.dim(x, 1), -1, head_width});
  return op::Transpose(b, x, 1, 2);
}

TensorId MergeHeads(Builder& b, TensorId x) {
  x = op::Contiguous(b, op::Transpose(b, x, 1, 2));
  return op::Flatten(b, x, 2, 3);
}

TensorId VisibleKeys(Builder& b, std::int64_t batch, std::int64_t length, std::int64_t window) {
  auto indices = [&](Dims shape) {
    return op::Reshape(b, op::WithScalar(b, "add", op::Arange(b, length), 0), std::move(shape));
  };
  TensorId queries = indices({1, 1, length, 1}), keys = indices({1, 1, 1, length});
  TensorId visible = op::Compare(b, "le", keys, queries);
  if (window > 0) {
    TensorId all = op::Fill(b, "new_ones", {}, DType::kBool);
    TensorId first = op::WithScalar(b, "sub", queries, static_cast<double>(window));
    TensorId near = op::Compare(b, "bitwise_and", all, op::Compare(b, "gt", keys, first));
    visible = op::Compare(b, "bitwise_and", near, visible);
  }
  return op::Expand(b, visible, {batch, 1, length, length});
}

TensorId CausalMask(Builder& b, std::int64_t batch, std::int64_t length, std::int64_t window, DType dtype) {
  TensorId visible = VisibleKeys(b, batch, length, window);
  TensorId zero = op::Fill(b, "zeros", {}, dtype);
  return op::Where(b, visible, zero, op::Fill(b, "scalar_tensor", {}, dtype));
}

TensorId RmsNorm(Builder& b, const std::string& name, TensorId x, bool offset) {
  auto layer = b.Enter(name);
  const Dims width = {b.dim(x, -1)};
  TensorId weight =
      b.options().kbit_prepare ? b.Parameter("weight", width, DType::kFloat32) : b.Parameter("weight", width);
  const DType dtype = b.at(x).dtype;
  x = op::Cast(b, x, DType::kFloat32);
  TensorId variance = op::Mean(b, op::Unary(b, "pow", x, {{"exponent", std::int64_t{2}}}), {-1}, true);
  TensorId scale = op::Unary(b, "rsqrt", op::WithScalar(b, "add", variance, 1e-6));
  TensorId normed = op::Mul(b, x, scale);
  if (offset) return op::Cast(b, op::Mul(b, normed, op::WithScalar(b, "add", weight, 1)), dtype);
  return op::Mul(b, weight, op::Cast(b, normed, dtype));
}

TensorId NewGelu(Builder& b, TensorId x) {
  TensorId half = op::WithScalar(b, "mul", x, 0.5);
  TensorId cube = op::WithScalar(b, "mul", op::Unary(b, "pow", x, {{"exponent", 3.0}}), 0.044715);
  TensorId inner = op::WithScalar(b, "mul", op::Add(b, x, cube), 0.7978845608028654);  // sqrt(2 / pi)
  return op::Mul(b, half, op::WithScalar(b, "add", op::Unary(b, "tanh", inner), 1));
}

TensorId TiedScores(Builder& b, TensorId x, TensorId embedding) {
  auto layer = b.Enter("lm_head");
  return op::Linear(b, x, embedding);
}

TensorId TokenLoss(Builder& b, TensorId logits, TensorId labels) {
  if (b.inference()) return logits;
  TensorId scores = op::Reshape(b, logits, {-1, b.dim(logits, -1)});
  return op::CrossEntropy(b, scores, op::Reshape(b, labels, {-1}));
}

TensorId NextTokenLoss(Builder& b, TensorId logits, TensorId labels) {
  if (b.inference()) return logits;
  logits = op::Cast(b, logits, DType::kFloat32);
  TensorId padded = op::ConstantPad(b, labels, {0, 1});
  TensorId shifted = op::Slice(b, padded, 1, 1, b.dim(padded, 1));
  return TokenLoss(b, logits, op::Contiguous(b, shifted));
}

}  // namespace ebbtide::model::zoo
