// Conv and ConvTranspose, of one to three spatial axes.
#include "model/onnx/lower.h"
#include "model/onnx/window.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

// A bias of zeros that an exporter adds where the layer has none.
Result<TensorId> Bias(Call& call, std::int64_t channels) {
  if (!call.Has(2)) return TensorId();
  EBB_ASSIGN_OR_RETURN(const Dims shape, call.Shape(2));
  if (shape != Dims{channels}) {
    return call.Wrong(fmt::format("bias {}: expected {}", ShapeText(shape), ShapeText({channels})));
  }
  if (!call.IsParameter(2) && call.Number(2) == 0.0) return TensorId();
  return call.Tensor(2);
}

Status CheckWeight(const Call& call, const Dims& in, const Dims& weight, std::int64_t groups, bool transposed) {
  if (in.size() < 3 || in.size() > 5) {
    return call.Wrong(fmt::format("input {}: expected a batch of channels with 1 to 3 spatial axes", ShapeText(in)));
  }
  if (weight.size() != in.size()) {
    return call.Wrong(
        fmt::format("weight {}: expected as many axes as the input {}", ShapeText(weight), ShapeText(in)));
  }
  if (groups < 1 || groups > kMostWindow) return call.Wrong(fmt::format("group {}: expected 1 or more", groups));
  const bool fits = transposed ? weight[0] == in[1] && in[1] % groups == 0
                               : SaturatingMul(weight[1], groups) == in[1] && weight[0] % groups == 0;
  if (!fits) {
    return call.Wrong(
        fmt::format("weight {}: expected one for {} channels in {} groups", ShapeText(weight), in[1], groups));
  }
  return {};
}

Status Conv(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(TensorId weight, call.Tensor(1));
  const Dims in = call.b.shape(x), kernel = call.b.shape(weight);
  op::ConvOptions options;
  options.groups = call.Int("group", 1);
  EBB_RETURN_IF_ERROR(CheckWeight(call, in, kernel, options.groups, false));
  EBB_ASSIGN_OR_RETURN(Window window, ReadWindow(call, in, Dims(kernel.begin() + 2, kernel.end())));
  EBB_RETURN_IF_ERROR(CheckFits(call, in, window));
  EBB_ASSIGN_OR_RETURN(TensorId bias, Bias(call, kernel[0]));
  x = PadUnevenly(call.b, x, window);
  options.stride = window.stride;
  options.padding = window.padding;
  options.dilation = window.dilation;
  options.output_padding.assign(window.kernel.size(), 0);
  return call.Set(0, op::Convolution(call.b, x, weight, bias, options));
}

Status ConvTranspose(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(TensorId weight, call.Tensor(1));
  const Dims in = call.b.shape(x), kernel = call.b.shape(weight);
  op::ConvOptions options;
  options.transposed = true;
  options.groups = call.Int("group", 1);
  EBB_RETURN_IF_ERROR(CheckWeight(call, in, kernel, options.groups, true));
  if (call.Ints("output_shape")) return call.Wrong("attribute output_shape: expected pads in its place");
  EBB_ASSIGN_OR_RETURN(Window window, ReadWindow(call, in, Dims(kernel.begin() + 2, kernel.end())));
  const std::size_t axes = window.kernel.size();
  options.output_padding = call.Ints("output_padding").value_or(Dims(axes, 0));
  if (options.output_padding.size() != axes) {
    return call.Wrong(fmt::format("output_padding: expected {} numbers", axes));
  }
  options.padding = window.padding;
  for (std::size_t i = 0; i < axes; ++i) {
    std::int64_t& extra = options.output_padding[i];
    if (extra < 0 || extra > kMostWindow) return call.Wrong("output_padding: expected small numbers, none negative");
    // More cut off at one end than at the other comes to less padding and a larger output.
    const std::int64_t uneven = window.before[i] + window.after[i] - 2 * window.padding[i];
    extra -= uneven;
    const std::int64_t size = (in[2 + i] - 1) * window.stride[i] - 2 * options.padding[i] +
                              window.dilation[i] * (window.kernel[i] - 1) + 1 + extra;
    if (size < 1) return call.Wrong(fmt::format("pads: nothing of axis {} is left", 2 + i));
  }
  const std::int64_t channels = SaturatingMul(kernel[1], options.groups);
  if (channels > kMostElements) return call.Wrong(fmt::format("weight {}: expected fewer channels", ShapeText(kernel)));
  EBB_ASSIGN_OR_RETURN(TensorId bias, Bias(call, channels));
  options.stride = window.stride;
  options.dilation = window.dilation;
  return call.Set(0, op::Convolution(call.b, x, weight, bias, options));
}

constexpr OperatorRow kRules[] = {{"Conv", 2, 3, Conv}, {"ConvTranspose", 2, 3, ConvTranspose}};

}  // namespace

std::span<const OperatorRow> ConvolutionRules() { return kRules; }

}  // namespace ebbtide::model::onnx
