// Makes the parameters of a layer, then records its op.
#include "model/nn.h"

#include "model/lora.h"
#include "model/quantize.h"

namespace ebbtide::model::nn {

namespace {

op::ConvOptions Resolve(const Conv& options, bool transposed) {
  op::ConvOptions out;
  out.stride = {options.stride, options.stride};
  out.padding = options.padding_shape.empty() ? Dims{options.padding, options.padding} : options.padding_shape;
  out.dilation = {options.dilation, options.dilation};
  out.groups = options.groups;
  out.transposed = transposed;
  return out;
}

TensorId Convolve(Builder& b, const std::string& name, TensorId x, std::int64_t channels, const Conv& options,
                  bool transposed) {
  auto layer = b.Enter(name);
  Dims kernel = options.kernel_shape.empty() ? Dims{options.kernel, options.kernel} : options.kernel_shape;
  std::int64_t in = b.dim(x, 1);
  Dims weight_shape = transposed ? Dims{in, channels / options.groups} : Dims{channels, in / options.groups};
  weight_shape.insert(weight_shape.end(), kernel.begin(), kernel.end());
  TensorId weight = b.Parameter("weight", weight_shape);
  TensorId bias = options.bias ? b.Parameter("bias", {channels}) : TensorId();
  return op::Convolution(b, x, weight, bias, Resolve(options, transposed));
}

}  // namespace

TensorId Conv2d(Builder& b, const std::string& name, TensorId x, std::int64_t channels, const Conv& options) {
  return Convolve(b, name, x, channels, options, false);
}

TensorId ConvTranspose2d(Builder& b, const std::string& name, TensorId x, std::int64_t channels, const Conv& options) {
  return Convolve(b, name, x, channels, options, true);
}

TensorId BatchNorm2d(Builder& b, const std::string& name, TensorId x) {
  auto layer = b.Enter(name);
  Dims channels = {b.dim(x, 1)};
  op::BatchNormState state;
  state.weight = b.Parameter("weight", channels);
  state.bias = b.Parameter("bias", channels);
  state.running_mean = b.Buffer("running_mean", channels);
  state.running_var = b.Buffer("running_var", channels);
  TensorId batches = b.Buffer("num_batches_tracked", {}, DType::kInt64);
  if (!b.inference()) b.InPlace("add_", batches, {{"other", std::int64_t{1}}});
  return op::BatchNorm(b, x, state);
}

TensorId Linear(Builder& b, const std::string& name, TensorId x, std::int64_t features, bool bias) {
  auto layer = b.Enter(name);
  if (IsQuantized(b)) return WithAdapter(b, x, QuantizedLinear(b, x, features, bias));
  TensorId weight = b.Parameter("weight", {features, b.dim(x, -1)});
  return WithAdapter(b, x, op::Linear(b, x, weight, bias ? b.Parameter("bias", {features}) : TensorId()));
}

TensorId LayerNorm(Builder& b, const std::string& name, TensorId x, bool bias) {
  auto layer = b.Enter(name);
  Dims width = {b.dim(x, -1)};
  TensorId weight = b.Parameter("weight", width);
  return op::LayerNorm(b, x, weight, bias ? b.Parameter("bias", width) : TensorId());
}

TensorId EmbeddingWeight(Builder& b, const std::string& name, std::int64_t rows, std::int64_t width) {
  auto layer = b.Enter(name);
  return b.Parameter("weight", {rows, width});
}

TensorId EmbeddingOf(Builder& b, const std::string& name, TensorId weight, TensorId indices) {
  auto layer = b.Enter(name);
  return op::Embedding(b, weight, indices);
}

TensorId Embedding(Builder& b, const std::string& name, TensorId indices, std::int64_t rows, std::int64_t width) {
  return EmbeddingOf(b, name, EmbeddingWeight(b, name, rows, width), indices);
}

}  // namespace ebbtide::model::nn
