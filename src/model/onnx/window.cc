// Reads auto_pad, pads, strides and dilations, each within bounds.
#include "model/onnx/window.h"

#include <algorithm>

#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

Result<Dims> Numbers(Call& call, std::string_view name, std::size_t count, std::int64_t least, std::int64_t fallback) {
  Dims numbers = call.Ints(name).value_or(Dims(count, fallback));
  const bool in_range = std::ranges::all_of(numbers, [&](std::int64_t n) { return n >= least && n <= kMostWindow; });
  if (numbers.size() != count || !in_range) {
    return call.Wrong(fmt::format("{}: expected {} numbers from {} to 2^20", name, count, least));
  }
  return numbers;
}

// Padding so that the output has one place per stride: more at the end for SAME_UPPER, at the beginning for SAME_LOWER.
void PadToSame(const Dims& in, bool upper, Window& window) {
  for (std::size_t i = 0; i < window.kernel.size(); ++i) {
    const std::int64_t size = in[2 + i], stride = window.stride[i];
    const std::int64_t reach = window.dilation[i] * (window.kernel[i] - 1) + 1;
    const std::int64_t total = std::max<std::int64_t>(((size + stride - 1) / stride - 1) * stride + reach - size, 0);
    window.before[i] = upper ? total / 2 : total - total / 2;
    window.after[i] = total - window.before[i];
  }
}

}  // namespace

Result<Window> ReadWindow(Call& call, const Dims& in, Dims kernel) {
  const std::size_t axes = in.size() - 2;
  Window window;
  for (std::size_t i = 0; i < axes; ++i) {
    if (in[2 + i] > kMostPixels)
      return call.Wrong(fmt::format("input {}: expected at most 2^31 along an axis", ShapeText(in)));
  }
  EBB_ASSIGN_OR_RETURN(window.kernel, Numbers(call, "kernel_shape", axes, 1, 1));
  if (kernel.empty()) {
    if (!call.Ints("kernel_shape")) return call.Wrong("kernel_shape: expected one");
  } else {
    if (call.Ints("kernel_shape") && window.kernel != kernel) {
      return call.Wrong(
          fmt::format("kernel_shape {}: expected the weight's, {}", ShapeText(window.kernel), ShapeText(kernel)));
    }
    window.kernel = std::move(kernel);
    if (std::ranges::any_of(window.kernel, [](std::int64_t n) { return n > kMostWindow; })) {
      return call.Wrong("weight: expected a kernel of at most 2^20 along an axis");
    }
  }
  EBB_ASSIGN_OR_RETURN(window.stride, Numbers(call, "strides", axes, 1, 1));
  EBB_ASSIGN_OR_RETURN(window.dilation, Numbers(call, "dilations", axes, 1, 1));
  EBB_ASSIGN_OR_RETURN(const Dims pads, Numbers(call, "pads", 2 * axes, 0, 0));
  window.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes));
  window.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(axes), pads.end());
  const std::string automatic = call.Text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") PadToSame(in, automatic == "SAME_UPPER", window);
  for (std::size_t i = 0; i < axes; ++i) window.padding.push_back(std::min(window.before[i], window.after[i]));
  window.ceil_mode = call.Int("ceil_mode", 0) != 0;
  return window;
}

Status CheckFits(const Call& call, const Dims& in, const Window& window) {
  for (std::size_t i = 0; i < window.kernel.size(); ++i) {
    const std::int64_t reach = window.dilation[i] * (window.kernel[i] - 1) + 1;
    if (in[2 + i] + window.before[i] + window.after[i] < reach) {
      return call.Wrong(
          fmt::format("input {}: axis {} is smaller than the kernel, which reaches over {}; expected a larger image",
                      ShapeText(in), 2 + i, reach));
    }
  }
  return {};
}

TensorId PadUnevenly(Builder& b, TensorId x, Window& window) {
  if (window.before == window.after) return x;
  Dims pad;
  for (std::size_t i = window.kernel.size(); i-- > 0;) {
    pad.push_back(window.before[i]);
    pad.push_back(window.after[i]);
  }
  window.padding.assign(window.padding.size(), 0);
  return op::ConstantPad(b, x, pad);
}

}  // namespace ebbtide::model::onnx
