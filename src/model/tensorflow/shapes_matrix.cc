// Shapes of products, convolutions, pooling, batch norms and cuDNN's recurrent networks.
#include <algorithm>

#include "model/tensorflow/inference.h"
#include "model/tensorflow/window.h"

namespace ebbtide::model::tensorflow {

Status InferMatMul(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  EBB_ASSIGN_OR_RETURN(Dims a, at.Shape(0, 2));
  EBB_ASSIGN_OR_RETURN(Dims b, at.Shape(1, 2));
  if (at.Flag("transpose_a", false)) std::swap(a[0], a[1]);
  if (at.Flag("transpose_b", false)) std::swap(b[0], b[1]);
  if (a[1] != b[0]) return Fail("expected matrices that fit, found {} columns and {} rows", a[1], b[0]);
  at.Yield(at.TypeOf(0), {a[0], b[1]});
  return {};
}

Status InferBatchMatMul(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  Dims a = at.Shape(0), b = at.Shape(1);
  if (a.size() < 2 || b.size() < 2) return Fail("expected at least 2 axes");
  if (at.Flag("adj_x", false)) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (at.Flag("adj_y", false)) std::swap(b[b.size() - 1], b[b.size() - 2]);
  if (a.back() != b[b.size() - 2])
    return Fail("expected matrices that fit, found {} columns and {} rows", a.back(), b[b.size() - 2]);
  const auto outer = Broadcast({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  if (!outer) return Fail("expected batches that broadcast");
  Dims shape = *outer;
  shape.push_back(a[a.size() - 2]);
  shape.push_back(b.back());
  at.Yield(at.TypeOf(0), std::move(shape));
  return {};
}

// Letters only: "abc,cde->abde".
Status InferEinsum(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1, 2));
  const std::string equation = at.Text("equation", "");
  const std::size_t arrow = equation.find("->");
  if (arrow == std::string::npos) return Fail("equation: expected an arrow");
  std::int64_t sizes[256];
  std::fill(std::begin(sizes), std::end(sizes), -1);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < at.inputs(); ++i) {
    const std::size_t end = i + 1 < at.inputs() ? equation.find(',') : arrow;
    if (end == std::string::npos || end < begin || end > arrow) return Fail("equation: expected terms for all inputs");
    const std::string_view term = std::string_view(equation).substr(begin, end - begin);
    if (term.size() != at.Shape(i).size()) return Fail("equation: expected a letter for each axis");
    for (std::size_t k = 0; k < term.size(); ++k) {
      std::int64_t& size = sizes[static_cast<unsigned char>(term[k])];
      if (size >= 0 && size != at.Shape(i)[k]) return Fail("equation: expected one size for each letter");
      size = at.Shape(i)[k];
    }
    begin = end + 1;
  }
  Dims shape;
  for (const char letter : std::string_view(equation).substr(arrow + 2)) {
    if (sizes[static_cast<unsigned char>(letter)] < 0) return Fail("equation: a letter that no input has");
    shape.push_back(sizes[static_cast<unsigned char>(letter)]);
  }
  at.Yield(at.TypeOf(0), std::move(shape));
  return {};
}

Status InferConvolution(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  EBB_ASSIGN_OR_RETURN(const Dims filter, at.Shape(1, 4));
  EBB_ASSIGN_OR_RETURN(Dims shape, at.Shape(0, 4));
  EBB_ASSIGN_OR_RETURN(const Window window, WindowOf(*at.node().attributes, shape, {filter[0], filter[1]}));
  const std::int64_t channels = shape[window.channel];
  const bool is_depthwise = at.op() == "DepthwiseConv2dNative";
  if (filter[2] <= 0 || channels % filter[2] != 0 || (is_depthwise && channels != filter[2]))
    return Fail("expected filters of {} channels, found {}", channels, filter[2]);
  shape[window.channel] = is_depthwise ? filter[2] * filter[3] : filter[3];
  shape[window.row] = window.out[0];
  shape[window.row + 1] = window.out[1];
  at.Yield(at.TypeOf(0), std::move(shape));
  return {};
}

Status InferConvolutionInputGradient(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(3));
  EBB_ASSIGN_OR_RETURN(Dims shape, at.ShapeFrom(0));
  if (shape.size() != 4 || at.Shape(1).size() != 4 || at.Shape(2).size() != 4) return Fail("expected 4 axes");
  at.Yield(at.TypeOf(2), std::move(shape));
  return {};
}

Status InferConvolutionFilterGradient(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(3));
  EBB_ASSIGN_OR_RETURN(Dims shape, at.ShapeFrom(1));
  if (shape.size() != 4 || at.Shape(0).size() != 4 || at.Shape(2).size() != 4) return Fail("expected 4 axes");
  at.Yield(at.TypeOf(2), std::move(shape));
  return {};
}

Status InferPool(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1));
  EBB_ASSIGN_OR_RETURN(Dims shape, at.Shape(0, 4));
  const Dims kernel = at.Sizes("ksize");
  if (kernel.size() != 4) return Fail("ksize: expected 4 sizes");
  const std::size_t row = at.Text("data_format", "NHWC") == "NCHW" ? 2 : 1;
  EBB_ASSIGN_OR_RETURN(const Window window, WindowOf(*at.node().attributes, shape, {kernel[row], kernel[row + 1]}));
  shape[window.row] = window.out[0];
  shape[window.row + 1] = window.out[1];
  at.Yield(at.TypeOf(0), std::move(shape));
  return {};
}

Status InferAveragePoolGradient(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  EBB_ASSIGN_OR_RETURN(Dims shape, at.ShapeFrom(0));
  at.Yield(at.TypeOf(1), std::move(shape));
  return {};
}

// The statistics of the batch, and what the gradient needs of them: a third reserve is cuDNN's own, which is empty with
// its plain algorithm.
Status InferBatchNorm(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(5));
  EBB_ASSIGN_OR_RETURN(Dims shape, at.Shape(0, 4));
  const std::int64_t channels = at.Text("data_format", "NHWC") == "NCHW" ? shape[1] : shape[3];
  const Type type = at.TypeOf(0), statistics = at.TypeOf(1);
  at.Yield(type, std::move(shape));
  for (int i = 0; i < 4; ++i) at.Yield(statistics, {channels});
  if (at.op() == "FusedBatchNormV3") at.Yield(statistics, {0});
  return {};
}

Status InferBatchNormGradient(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(5, 6));
  const Type type = at.TypeOf(1), statistics = at.TypeOf(2);
  Dims shape = at.Shape(1), channels = at.Shape(2);
  at.Yield(type, std::move(shape));
  at.Yield(statistics, channels);
  at.Yield(statistics, channels);
  at.Yield(statistics, {0});
  at.Yield(statistics, {0});
  return {};
}

// input, input_h, input_c, params, sequence_lengths; time comes first unless the attribute says otherwise.
Status InferCudnnRecurrent(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(5));
  EBB_ASSIGN_OR_RETURN(Dims shape, at.Shape(0, 3));
  EBB_ASSIGN_OR_RETURN(Dims state, at.Shape(1, 3));
  Dims cell = at.Shape(2);
  const Type type = at.TypeOf(0);
  const std::int64_t directions = at.Text("direction", "unidirectional") == "bidirectional" ? 2 : 1;
  if (state[2] <= 0 || state[2] > kMostElements / 2) return Fail("expected a hidden size");
  // Gates, outputs and cells of all steps, as device/workspace_rules.h counts them.
  const std::string mode = at.Text("rnn_mode", "lstm");
  const std::int64_t kept = mode == "lstm" ? 6 : mode == "gru" ? 4 : 2;
  const auto reserve = CountElements({shape[0], shape[1], state[0], state[2], kept});
  if (!reserve) return Fail("expected fewer elements");
  shape[2] = directions * state[2];
  at.Yield(type, std::move(shape));
  at.Yield(type, std::move(state));
  at.Yield(type, std::move(cell));
  at.Yield(type, {*reserve});
  at.Yield({Kind::kNumbers, DType::kInt8}, {0});
  return {};
}

Status InferCudnnRecurrentGradient(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(12));
  for (const std::size_t input : {0, 1, 2, 3}) at.Yield(at.TypeOf(input), at.Shape(input));
  return {};
}

}  // namespace ebbtide::model::tensorflow
