// Pools over one to three spatial axes, and over whole images.
#include "model/onnx/lower.h"
#include "model/onnx/window.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

std::int64_t PooledSize(std::int64_t size, const Window& window, std::size_t i) {
  const std::int64_t stride = window.stride[i], padding = window.padding[i];
  const std::int64_t span = size + 2 * padding - window.kernel[i];
  std::int64_t out = (span + (window.ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (window.ceil_mode && (out - 1) * stride >= size + padding) --out;  // the last window begins inside the input
  return out;
}

// torch's pools over three axes, which the zoo does not need.
std::vector<TensorId> Pool3d(Builder& b, TensorId x, const Window& window, bool is_max) {
  Dims shape = b.shape(x);
  for (std::size_t i = 0; i < 3; ++i) shape[2 + i] = PooledSize(shape[2 + i], window, i);
  std::vector<OutputSpec> outputs = {{shape, b.at(x).dtype}};
  if (is_max) outputs.push_back({shape, DType::kInt64});
  return b.Call(is_max ? "max_pool3d_with_indices" : "avg_pool3d",
                {{"self", x}, {"kernel_size", window.kernel}, {"stride", window.stride}, {"padding", window.padding}},
                std::move(outputs));
}

Status Pool(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  Builder& b = call.b;
  const Dims in = b.shape(x);
  if (in.size() < 3 || in.size() > 5) {
    return call.Wrong(fmt::format("input {}: expected a batch of channels with 1 to 3 spatial axes", ShapeText(in)));
  }
  EBB_ASSIGN_OR_RETURN(Window window, ReadWindow(call, in, {}));
  EBB_RETURN_IF_ERROR(CheckFits(call, in, window));
  const bool is_max = call.node.op == "MaxPool";
  for (std::size_t i = 0; i < window.kernel.size(); ++i) {
    // A dilated window reaches as far as a larger one.
    window.kernel[i] = window.dilation[i] * (window.kernel[i] - 1) + 1;
    if (window.before[i] >= window.kernel[i] || window.after[i] >= window.kernel[i]) {
      return call.Wrong("pads: expected less than the kernel");
    }
  }
  x = PadUnevenly(b, x, window);
  TensorId result, indices;
  if (in.size() == 5) {
    const std::vector<TensorId> results = Pool3d(b, x, window, is_max);
    result = results[0];
    indices = results.back();
  } else {
    const bool line = in.size() == 3;  // torch pools a line as an image of height 1
    if (line) {
      x = op::Unsqueeze(b, x, 2);
      for (Dims* numbers : {&window.kernel, &window.stride}) numbers->insert(numbers->begin(), 1);
      window.padding.insert(window.padding.begin(), 0);
    }
    const op::PoolOptions options{window.kernel, window.stride, window.padding, window.ceil_mode};
    result = is_max ? op::MaxPool2d(b, x, options) : op::AvgPool2d(b, x, options);
    indices = b.graph().ops.back().outputs.back();
    if (line) result = op::Squeeze(b, result, 2);
    if (line) indices = op::Squeeze(b, indices, 2);
  }
  if (is_max && call.Wants(1)) EBB_RETURN_IF_ERROR(call.Set(1, indices));
  return call.Set(0, result);
}

Status GlobalPool(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  const Dims in = call.b.shape(x);
  if (in.size() < 3)
    return call.Wrong(fmt::format("input {}: expected a batch of channels with spatial axes", ShapeText(in)));
  if (call.node.op == "GlobalAveragePool" && in.size() == 4) return call.Set(0, op::AdaptiveAvgPool2d(call.b, x, 1, 1));
  Dims axes, shape = in;
  for (std::size_t i = 2; i < in.size(); ++i) {
    axes.push_back(static_cast<std::int64_t>(i));
    shape[i] = 1;
  }
  if (call.node.op == "GlobalAveragePool") return call.Set(0, op::Mean(call.b, x, axes, true));
  return call.Set(0,
                  call.b.CallOne("amax", {{"self", x}, {"dim", axes}, {"keepdim", true}}, {shape, call.b.at(x).dtype}));
}

constexpr OperatorRow kRules[] = {
    {"MaxPool", 1, 1, Pool},
    {"AveragePool", 1, 1, Pool},
    {"GlobalAveragePool", 1, 1, GlobalPool},
    {"GlobalMaxPool", 1, 1, GlobalPool},
};

}  // namespace

std::span<const OperatorRow> PoolingRules() { return kRules; }

}  // namespace ebbtide::model::onnx
