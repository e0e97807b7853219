// Convolution, pooling and normalisation.
#include <algorithm>
#include <cassert>

#include "model/autocast_rules.h"
#include "model/ops.h"

namespace ebbtide::model::op {

namespace {

std::int64_t At(const Dims& values, std::size_t axis) { return values.size() == 1 ? values[0] : values[axis]; }

// Height and width, for messages.
std::string Extent(const Dims& shape) {
  std::string text;
  for (std::size_t axis = 2; axis < shape.size(); ++axis) text += (axis > 2 ? "x" : "") + std::to_string(shape[axis]);
  return text;
}

void FailTooSmall(Builder& b, TensorId x, std::int64_t reach, std::int64_t padding) {
  b.Fail(fmt::format("input of {}: expected {} or more each way, as a larger image gives", Extent(b.shape(x)),
                     reach - 2 * padding));
}

std::int64_t PooledSize(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                        bool ceil_mode) {
  std::int64_t span = size + 2 * padding - kernel + (ceil_mode ? stride - 1 : 0);
  if (span < 0) return 0;
  std::int64_t out = span / stride + 1;
  // The last window must start inside the input or its left padding.
  if (ceil_mode && (out - 1) * stride >= size + padding) --out;
  return out;
}

Dims PooledShape(Builder& b, TensorId x, const PoolOptions& options) {
  Dims shape = b.shape(x);
  const Dims& stride = options.stride.empty() ? options.kernel : options.stride;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    std::int64_t& size = shape[shape.size() - 2 + axis];
    std::int64_t kernel = At(options.kernel, axis), padding = At(options.padding, axis);
    std::int64_t pooled = PooledSize(size, kernel, At(stride, axis), padding, options.ceil_mode);
    if (pooled < 1) FailTooSmall(b, x, kernel, padding);
    size = std::max<std::int64_t>(pooled, 1);
  }
  return shape;
}

Arguments PoolArguments(TensorId x, const PoolOptions& options) {
  return {{"self", x},
          {"kernel_size", options.kernel},
          {"stride", options.stride.empty() ? options.kernel : options.stride},
          {"padding", options.padding},
          {"ceil_mode", options.ceil_mode}};
}

}  // namespace

TensorId Convolution(Builder& b, TensorId x, TensorId weight, TensorId bias, const ConvOptions& options) {
  Autocast(b, "convolution", {&x, &weight, &bias});
  const Dims in = b.shape(x), kernel = b.shape(weight);
  Dims out = {in[0], options.transposed ? kernel[1] * options.groups : kernel[0]};
  for (std::size_t axis = 2; axis < in.size(); ++axis) {
    std::int64_t stride = At(options.stride, axis - 2), padding = At(options.padding, axis - 2);
    std::int64_t reach = At(options.dilation, axis - 2) * (kernel[axis] - 1);
    std::int64_t span = options.transposed
                            ? (in[axis] - 1) * stride - 2 * padding + reach + At(options.output_padding, axis - 2)
                            : in[axis] + 2 * padding - reach - 1;
    if (span < 0) FailTooSmall(b, x, reach + 1, padding);
    span = std::max<std::int64_t>(span, 0);
    out.push_back((options.transposed ? span : span / stride) + 1);
  }
  // An input with channels last in memory makes the result so too.
  Dims stride = in.size() == 4 ? StrideLike(b.at(x), out) : Dims{};
  return b.CallOne("convolution",
                   {{"input", x},
                    {"weight", weight},
                    {"bias", bias},
                    {"stride", options.stride},
                    {"padding", options.padding},
                    {"dilation", options.dilation},
                    {"transposed", options.transposed},
                    {"output_padding", options.output_padding},
                    {"groups", options.groups}},
                   {out, b.at(x).dtype, stride});
}

TensorId MaxPool2d(Builder& b, TensorId x, const PoolOptions& options) {
  Dims shape = PooledShape(b, x, options);
  return b.Call("max_pool2d_with_indices", PoolArguments(x, options),
                {{shape, b.at(x).dtype}, {shape, DType::kInt64}})[0];
}

TensorId AvgPool2d(Builder& b, TensorId x, const PoolOptions& options) {
  return b.CallOne("avg_pool2d", PoolArguments(x, options), {PooledShape(b, x, options), b.at(x).dtype});
}

TensorId AdaptiveAvgPool2d(Builder& b, TensorId x, std::int64_t height, std::int64_t width) {
  if (height == 1 && width == 1) return Mean(b, x, {-1, -2}, true);
  Dims shape = b.shape(x);
  shape[shape.size() - 2] = height;
  shape[shape.size() - 1] = width;
  return b.CallOne("_adaptive_avg_pool2d", {{"self", x}, {"output_size", Dims{height, width}}}, {shape, b.at(x).dtype});
}

TensorId BatchNorm(Builder& b, TensorId x, const BatchNormState& state) {
  const bool training = !b.inference();
  OutputSpec per_channel{{training ? b.dim(x, 1) : 0}, DType::kFloat32};
  Arguments arguments = {{"input", x},
                         {"weight", state.weight},
                         {"bias", state.bias},
                         {"running_mean", state.running_mean},
                         {"running_var", state.running_var},
                         {"training", training}};
  CallOptions updates;
  if (training) updates.mutated = {state.running_mean, state.running_var};
  OutputSpec result{b.shape(x), b.at(x).dtype};
  // cuDNN's reserve buffer is empty for the NCHW layout that torch uses by default.
  if (b.on_cuda()) {
    return b.Call("cudnn_batch_norm", arguments, {result, per_channel, per_channel, {{0}, DType::kUInt8}}, updates)[0];
  }
  return b.Call("native_batch_norm", arguments, {result, per_channel, per_channel}, updates)[0];
}

TensorId LayerNorm(Builder& b, TensorId x, TensorId weight, TensorId bias) {
  Autocast(b, "layer_norm", {&x, &weight, &bias});
  Dims normalized = b.shape(weight);
  Dims statistics = b.shape(x);
  std::fill(statistics.end() - normalized.size(), statistics.end(), 1);
  return b.Call("native_layer_norm",
                {{"input", x}, {"normalized_shape", normalized}, {"weight", weight}, {"bias", bias}},
                {{b.shape(x), b.at(x).dtype}, {statistics, DType::kFloat32}, {statistics, DType::kFloat32}})[0];
}

TensorId Upsample(Builder& b, const std::string& kind, TensorId x, std::int64_t height, std::int64_t width) {
  Autocast(b, kind, {&x});
  Dims shape = b.shape(x);
  shape[shape.size() - 2] = height;
  shape[shape.size() - 1] = width;
  return b.CallOne(kind, {{"self", x}, {"output_size", Dims{height, width}}}, {shape, b.at(x).dtype});
}

}  // namespace ebbtide::model::op
