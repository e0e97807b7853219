// Resize and Upsample: torch's interpolate.
#include <cmath>

#include "model/onnx/lower.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

constexpr double kMostPixels = 2147483648.0;  // along one axis

// The output's shape by sizes (input 3), else by scales (input 2; input 1 of Upsample).
Result<Dims> OutputShape(Call& call, const Dims& in) {
  if (call.Has(3)) {
    EBB_ASSIGN_OR_RETURN(const Dims sizes, call.Integers(3));
    return sizes;
  }
  const std::size_t place = call.node.op == "Upsample" ? 1 : 2;
  const Array* scales = call.Contents(place);
  if (!scales || !scales->is_real() || scales->shape.size() != 1 ||
      scales->shape[0] != static_cast<std::int64_t>(in.size())) {
    return call.Wrong(fmt::format("scales: expected {} known numbers", in.size()));
  }
  Dims sizes;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double size = std::floor(static_cast<double>(in[i]) * scales->real(i));
    if (!(size >= 1 && size <= kMostPixels))
      return call.Wrong(fmt::format("scales: axis {}: expected a positive, smaller size", i));
    sizes.push_back(static_cast<std::int64_t>(size));
  }
  return sizes;
}

Status Resize(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  Builder& b = call.b;
  const Dims in = b.shape(x);
  if (in.size() < 3 || in.size() > 5) {
    return call.Wrong(fmt::format("input {}: expected a batch of channels with 1 to 3 spatial axes", ShapeText(in)));
  }
  if (call.Ints("axes")) return call.Wrong("attribute axes: expected sizes or scales of all axes");
  EBB_ASSIGN_OR_RETURN(const Dims out, OutputShape(call, in));
  if (out.size() != in.size() || out[0] != in[0] || out[1] != in[1] || !CountElements(out) ||
      *CountElements(out) == 0) {
    return call.Wrong(
        fmt::format("from {} to {}: expected other sizes of the spatial axes alone", ShapeText(in), ShapeText(out)));
  }
  const std::string mode = call.Text("mode", "nearest");
  const std::size_t axes = in.size() - 2;
  const bool cubic = mode == "cubic" && axes == 2;
  if (mode != "nearest" && mode != "linear" && !cubic)
    return call.Wrong("mode: expected nearest, linear, or cubic of two axes");
  static constexpr const char* kLinear[] = {"upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"};
  static constexpr const char* kNearest[] = {"upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"};
  const std::string kind = cubic ? "upsample_bicubic2d" : mode == "linear" ? kLinear[axes - 1] : kNearest[axes - 1];
  if (axes == 2) return call.Set(0, op::Upsample(b, kind, x, out[2], out[3]));
  return call.Set(
      0, b.CallOne(kind, {{"self", x}, {"output_size", Dims(out.begin() + 2, out.end())}}, {out, b.at(x).dtype}));
}

constexpr OperatorRow kRules[] = {{"Resize", 1, 4, Resize}, {"Upsample", 2, 2, Resize}};

}  // namespace

std::span<const OperatorRow> ResizeRules() { return kRules; }

}  // namespace ebbtide::model::onnx
