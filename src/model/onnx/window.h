// The sliding windows of convolutions and pools: kernel, stride, dilation and padding from a node's attributes.
#pragma once

#include "model/onnx/lower.h"

namespace ebbtide::model::onnx {

inline constexpr std::int64_t kMostWindow = std::int64_t{1} << 20;  // of each of these numbers
inline constexpr std::int64_t kMostPixels = std::int64_t{1} << 31;  // along one spatial axis

// One number per spatial axis. `padding` is what both ends have; where one has more, torch pads first.
struct Window {
  Dims kernel, stride, dilation;
  Dims before, after;
  Dims padding;
  bool ceil_mode = false;
};

// The window of a node over `in`, [batch, channels, spatial...]. An empty kernel is read from the attribute
// kernel_shape.
Result<Window> ReadWindow(Call& call, const Dims& in, Dims kernel);

// Fails where the window does not lie inside the padded input at least once.
Status CheckFits(const Call& call, const Dims& in, const Window& window);

// Pads where the ends differ, and makes the window's padding zero then.
TensorId PadUnevenly(Builder& b, TensorId x, Window& window);

}  // namespace ebbtide::model::onnx
