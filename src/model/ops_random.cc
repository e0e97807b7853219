// Dropout and its kin: random masks. Only plain dropout has a fused kernel, on CUDA.
#include "model/ops.h"

namespace ebbtide::model::op {

namespace {

OutputSpec Like(const Builder& b, TensorId x, DType dtype) {
  return {b.shape(x), dtype, StrideLike(b.at(x), b.shape(x))};
}

// Zeros with probability `p`, else 1 / (1 - p).
TensorId ScaledMask(Builder& b, TensorId empty, double p) {
  b.set_needs_grad(empty, false);
  TensorId mask = b.InPlace("bernoulli_", empty, {{"p", 1 - p}}, {.random = true});
  return b.InPlace("div_", mask, {{"other", 1 - p}});
}

}  // namespace

TensorId Dropout(Builder& b, TensorId x, double p) {
  if (p == 0 || b.inference()) return x;
  OutputSpec like = Like(b, x, b.at(x).dtype);
  if (b.on_cuda()) {
    OutputSpec mask = Like(b, x, DType::kBool);
    return b.Call("native_dropout", {{"input", x}, {"p", p}, {"train", true}}, {like, mask}, {.random = true})[0];
  }
  return Mul(b, x, ScaledMask(b, b.CallOne("empty_like", {{"self", x}}, like), p));
}

TensorId DropoutInPlace(Builder& b, TensorId x, double p) {
  if (p == 0 || b.inference()) return x;
  TensorId empty = b.CallOne("empty_like", {{"self", x}}, Like(b, x, b.at(x).dtype));
  return BinaryInPlace(b, "mul_", x, ScaledMask(b, empty, p));
}

TensorId StochasticDepth(Builder& b, TensorId x, double p) {
  if (p == 0 || b.inference()) return x;
  Dims per_image(b.shape(x).size(), 1);
  per_image[0] = b.dim(x, 0);
  return Mul(b, x, ScaledMask(b, Fill(b, "empty", per_image, b.at(x).dtype), p));
}

}  // namespace ebbtide::model::op
