// Convolutions by algorithm, the interface that was there before the backend. Two algorithms of each pass are offered:
// the first engine of the rules, and the one without workspace.
#include <algorithm>

#include "phantom/cudnn/descriptors.h"

using namespace ebbtide::phantom;
using ebbtide::ConvolutionEngine;
using ebbtide::ConvolutionPass;
using ebbtide::ConvolutionProblem;
using ebbtide::ConvolutionType;

namespace {

std::optional<ConvolutionType> TypeOf(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT: return ConvolutionType::kFloat32;
    case CUDNN_DATA_DOUBLE: return ConvolutionType::kFloat64;
    case CUDNN_DATA_HALF: return ConvolutionType::kFloat16;
    case CUDNN_DATA_BFLOAT16: return ConvolutionType::kBFloat16;
    case CUDNN_DATA_INT8: return ConvolutionType::kInt8;
    default: return std::nullopt;
  }
}

// What a pass is computed with: [0] as the heuristics would, [1] without workspace.
struct Engines {
  cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM;
  ConvolutionEngine best, least;
};

Engines EnginesOf(ConvolutionPass pass, const void* input, const void* filter, const void* convolution,
                  const void* output) {
  std::shared_ptr<TensorDescriptor> x = Get<TensorDescriptor>(input), y = Get<TensorDescriptor>(output);
  std::shared_ptr<FilterDescriptor> w = Get<FilterDescriptor>(filter);
  std::shared_ptr<ConvolutionDescriptor> conv = Get<ConvolutionDescriptor>(convolution);
  if (!x || !y || !w || !conv) return {};
  std::size_t rank = conv->stride.size();
  if (rank == 0 || x->dims.size() != rank + 2 || y->dims.size() != rank + 2 || w->dims.size() != rank + 2) return {};
  std::optional<ConvolutionType> type = TypeOf(x->type);
  if (!type)
    return {.status = Refuse("a cuDNN convolution of data type " + std::to_string(x->type)), .best = {}, .least = {}};
  ConvolutionProblem problem{.pass = pass,
                             .type = *type,
                             .allows_tf32 = conv->math_type != CUDNN_FMA_MATH,
                             .is_channels_last = x->IsChannelsLast(),
                             .batch = x->dims[0],
                             .in_channels = x->dims[1],
                             .out_channels = w->dims[0],
                             .groups = conv->groups,
                             .input = {x->dims.begin() + 2, x->dims.end()},
                             .filter = {w->dims.begin() + 2, w->dims.end()},
                             .output = {y->dims.begin() + 2, y->dims.end()},
                             .stride = {conv->stride.begin(), conv->stride.end()},
                             .dilation = {conv->dilation.begin(), conv->dilation.end()}};
  std::vector<ConvolutionEngine> engines = ConvolutionEngines(problem, Profile());
  auto allowed = std::find_if(engines.begin(), engines.end(), [&](const ConvolutionEngine& engine) {
    return problem.allows_tf32 || *type != ConvolutionType::kFloat32 || !engine.uses_tensor_cores;
  });
  for (ConvolutionEngine& engine : engines) engine.time = TimeOfConvolution(problem);
  return {.status = CUDNN_STATUS_SUCCESS,
          .best = allowed == engines.end() ? engines.back() : *allowed,
          .least = engines.back()};
}

template <class Algorithm, class Perf>
cudnnStatus_t List(const Engines& engines, Algorithm best, Algorithm least, int requested, int* returned, Perf* out,
                   std::size_t limit) {
  if (engines.status != CUDNN_STATUS_SUCCESS) return engines.status;
  if (requested < 1 || !returned || !out) return CUDNN_STATUS_BAD_PARAM;
  *returned = 0;
  float time = 1;
  for (auto [algorithm, engine] : {std::pair(best, engines.best), std::pair(least, engines.least)}) {
    if (*returned == requested || static_cast<std::size_t>(engine.workspace) > limit) continue;
    Perf& row = out[(*returned)++];
    row = {};
    row.algo = algorithm;
    row.status = CUDNN_STATUS_SUCCESS;
    row.time = time++;
    row.memory = static_cast<std::size_t>(engine.workspace);
    row.determinism = engine.is_deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    row.mathType = engine.uses_tensor_cores ? CUDNN_TENSOR_OP_MATH : CUDNN_DEFAULT_MATH;
  }
  return *returned > 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

template <class Algorithm>
cudnnStatus_t Size(const Engines& engines, Algorithm best, Algorithm least, Algorithm asked, size_t* bytes) {
  if (engines.status != CUDNN_STATUS_SUCCESS) return engines.status;
  if (!bytes) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (asked != best && asked != least) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = static_cast<std::size_t>((asked == best ? engines.best : engines.least).workspace);
  return CUDNN_STATUS_SUCCESS;
}

template <class Algorithm>
cudnnStatus_t Compute(const char* name, const Library& library, const Engines& engines, Algorithm best, Algorithm least,
                      Algorithm asked, size_t given) {
  std::size_t needed = 0;
  cudnnStatus_t status = Size(engines, best, least, asked, &needed);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return given < needed ? CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT : Run(name, library, engines.best.time);
}

constexpr auto kForwardBest = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
constexpr auto kForwardLeast = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
constexpr auto kDataBest = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
constexpr auto kDataLeast = CUDNN_CONVOLUTION_BWD_DATA_ALGO_0;
constexpr auto kFilterBest = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
constexpr auto kFilterLeast = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0;
constexpr std::size_t kNoLimit = ~std::size_t{0};

}  // namespace

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* out) {
  CUDNN_CALL("cudnnCreateConvolutionDescriptor");
  return CreateDescriptor<ConvolutionDescriptor>(out);
}

cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t handle) {
  CUDNN_CALL("cudnnDestroyConvolutionDescriptor", handle);
  return DestroyDescriptor<ConvolutionDescriptor>(handle);
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t handle, cudnnMathType_t type) {
  CUDNN_CALL("cudnnSetConvolutionMathType", handle, type);
  CUDNN_DESCRIPTOR(ConvolutionDescriptor, convolution, handle);
  convolution->math_type = type;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionMathType(cudnnConvolutionDescriptor_t handle, cudnnMathType_t* type) {
  CUDNN_CALL("cudnnGetConvolutionMathType", handle);
  CUDNN_DESCRIPTOR(ConvolutionDescriptor, convolution, handle);
  if (!type) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *type = convolution->math_type;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t handle, int groups) {
  CUDNN_CALL("cudnnSetConvolutionGroupCount", handle, groups);
  CUDNN_DESCRIPTOR(ConvolutionDescriptor, convolution, handle);
  if (groups < 1) return CUDNN_STATUS_BAD_PARAM;
  convolution->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionGroupCount(cudnnConvolutionDescriptor_t handle, int* groups) {
  CUDNN_CALL("cudnnGetConvolutionGroupCount", handle);
  CUDNN_DESCRIPTOR(ConvolutionDescriptor, convolution, handle);
  if (!groups) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *groups = convolution->groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t handle, int count, const int* padding,
                                              const int* stride, const int* dilation, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute_type) {
  CUDNN_CALL("cudnnSetConvolutionNdDescriptor", handle, count, mode, compute_type);
  CUDNN_DESCRIPTOR(ConvolutionDescriptor, convolution, handle);
  if (count < 1 || count > CUDNN_DIM_MAX - 2 || !padding || !stride || !dilation) return CUDNN_STATUS_BAD_PARAM;
  convolution->padding.assign(padding, padding + count);
  convolution->stride.assign(stride, stride + count);
  convolution->dilation.assign(dilation, dilation + count);
  convolution->mode = mode;
  convolution->compute_type = compute_type;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t handle, int padding_height,
                                              int padding_width, int stride_height, int stride_width,
                                              int dilation_height, int dilation_width, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute_type) {
  CUDNN_CALL("cudnnSetConvolution2dDescriptor", handle, mode, compute_type);
  int padding[] = {padding_height, padding_width}, stride[] = {stride_height, stride_width};
  int dilation[] = {dilation_height, dilation_width};
  return cudnnSetConvolutionNdDescriptor(handle, 2, padding, stride, dilation, mode, compute_type);
}

// ---- Forward

cudnnStatus_t cudnnGetConvolutionForwardAlgorithmMaxCount(cudnnHandle_t handle, int* count) {
  CUDNN_HANDLE_CALL("cudnnGetConvolutionForwardAlgorithmMaxCount", handle);
  if (!count) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *count = 2;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                     const cudnnFilterDescriptor_t w,
                                                     const cudnnConvolutionDescriptor_t convolution,
                                                     const cudnnTensorDescriptor_t y, const int requested,
                                                     int* returned, cudnnConvolutionFwdAlgoPerf_t* out) {
  CUDNN_HANDLE_CALL("cudnnGetConvolutionForwardAlgorithm", handle);
  return List(EnginesOf(ConvolutionPass::kForward, x, w, convolution, y), kForwardBest, kForwardLeast, requested,
              returned, out, kNoLimit);
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const void*,
                                                     const cudnnFilterDescriptor_t w, const void*,
                                                     const cudnnConvolutionDescriptor_t convolution,
                                                     const cudnnTensorDescriptor_t y, void*, const int requested,
                                                     int* returned, cudnnConvolutionFwdAlgoPerf_t* out, void*,
                                                     size_t limit) {
  CUDNN_HANDLE_CALL("cudnnFindConvolutionForwardAlgorithmEx", handle, limit);
  return List(EnginesOf(ConvolutionPass::kForward, x, w, convolution, y), kForwardBest, kForwardLeast, requested,
              returned, out, limit);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                      const cudnnFilterDescriptor_t w,
                                                      const cudnnConvolutionDescriptor_t convolution,
                                                      const cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  CUDNN_HANDLE_CALL("cudnnGetConvolutionForwardWorkspaceSize", handle, algorithm);
  return Size(EnginesOf(ConvolutionPass::kForward, x, w, convolution, y), kForwardBest, kForwardLeast, algorithm,
              bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void*, const cudnnTensorDescriptor_t x, const void*,
                                      const cudnnFilterDescriptor_t w, const void*,
                                      const cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void*, size_t workspace, const void*,
                                      const cudnnTensorDescriptor_t y, void*) {
  CUDNN_HANDLE_CALL("cudnnConvolutionForward", handle, algorithm, workspace);
  return Compute("cudnnConvolutionForward", *library, EnginesOf(ConvolutionPass::kForward, x, w, convolution, y),
                 kForwardBest, kForwardLeast, algorithm, workspace);
}

cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void*, const cudnnTensorDescriptor_t x, const void*, const cudnnFilterDescriptor_t w,
    const void*, const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionFwdAlgo_t algorithm, void*,
    size_t workspace, const void*, const cudnnTensorDescriptor_t z, const void*, const cudnnTensorDescriptor_t bias,
    const void*, const cudnnActivationDescriptor_t activation, const cudnnTensorDescriptor_t y, void*) {
  CUDNN_HANDLE_CALL("cudnnConvolutionBiasActivationForward", handle, algorithm, workspace);
  if (!Get<TensorDescriptor>(z) || !Get<TensorDescriptor>(bias) || !Get<ActivationDescriptor>(activation))
    return CUDNN_STATUS_BAD_PARAM;
  return Compute("cudnnConvolutionBiasActivationForward", *library,
                 EnginesOf(ConvolutionPass::kForward, x, w, convolution, y), kForwardBest, kForwardLeast, algorithm,
                 workspace);
}

// ---- Gradient of the input

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithmMaxCount(cudnnHandle_t handle, int* count) {
  CUDNN_HANDLE_CALL("cudnnGetConvolutionBackwardDataAlgorithmMaxCount", handle);
  if (!count) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *count = 2;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle, const cudnnFilterDescriptor_t w,
                                                          const cudnnTensorDescriptor_t dy,
                                                          const cudnnConvolutionDescriptor_t convolution,
                                                          const cudnnTensorDescriptor_t dx, const int requested,
                                                          int* returned, cudnnConvolutionBwdDataAlgoPerf_t* out) {
  CUDNN_HANDLE_CALL("cudnnGetConvolutionBackwardDataAlgorithm", handle);
  return List(EnginesOf(ConvolutionPass::kDataGradient, dx, w, convolution, dy), kDataBest, kDataLeast, requested,
              returned, out, kNoLimit);
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(cudnnHandle_t handle, const cudnnFilterDescriptor_t w,
                                                          const void*, const cudnnTensorDescriptor_t dy, const void*,
                                                          const cudnnConvolutionDescriptor_t convolution,
                                                          const cudnnTensorDescriptor_t dx, void*, const int requested,
                                                          int* returned, cudnnConvolutionBwdDataAlgoPerf_t* out, void*,
                                                          size_t limit) {
  CUDNN_HANDLE_CALL("cudnnFindConvolutionBackwardDataAlgorithmEx", handle, limit);
  return List(EnginesOf(ConvolutionPass::kDataGradient, dx, w, convolution, dy), kDataBest, kDataLeast, requested,
              returned, out, limit);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t handle, const cudnnFilterDescriptor_t w,
                                                           const cudnnTensorDescriptor_t dy,
                                                           const cudnnConvolutionDescriptor_t convolution,
                                                           const cudnnTensorDescriptor_t dx,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
  CUDNN_HANDLE_CALL("cudnnGetConvolutionBackwardDataWorkspaceSize", handle, algorithm);
  return Size(EnginesOf(ConvolutionPass::kDataGradient, dx, w, convolution, dy), kDataBest, kDataLeast, algorithm,
              bytes);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void*, const cudnnFilterDescriptor_t w,
                                           const void*, const cudnnTensorDescriptor_t dy, const void*,
                                           const cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void*, size_t workspace,
                                           const void*, const cudnnTensorDescriptor_t dx, void*) {
  CUDNN_HANDLE_CALL("cudnnConvolutionBackwardData", handle, algorithm, workspace);
  return Compute("cudnnConvolutionBackwardData", *library,
                 EnginesOf(ConvolutionPass::kDataGradient, dx, w, convolution, dy), kDataBest, kDataLeast, algorithm,
                 workspace);
}

// ---- Gradient of the filter

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(cudnnHandle_t handle, int* count) {
  CUDNN_HANDLE_CALL("cudnnGetConvolutionBackwardFilterAlgorithmMaxCount", handle);
  if (!count) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *count = 2;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                            const cudnnTensorDescriptor_t dy,
                                                            const cudnnConvolutionDescriptor_t convolution,
                                                            const cudnnFilterDescriptor_t dw, const int requested,
                                                            int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* out) {
  CUDNN_HANDLE_CALL("cudnnGetConvolutionBackwardFilterAlgorithm", handle);
  return List(EnginesOf(ConvolutionPass::kFilterGradient, x, dw, convolution, dy), kFilterBest, kFilterLeast, requested,
              returned, out, kNoLimit);
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const void*, const cudnnTensorDescriptor_t dy, const void*,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw, void*, const int requested,
    int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* out, void*, size_t limit) {
  CUDNN_HANDLE_CALL("cudnnFindConvolutionBackwardFilterAlgorithmEx", handle, limit);
  return List(EnginesOf(ConvolutionPass::kFilterGradient, x, dw, convolution, dy), kFilterBest, kFilterLeast, requested,
              returned, out, limit);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                             const cudnnTensorDescriptor_t dy,
                                                             const cudnnConvolutionDescriptor_t convolution,
                                                             const cudnnFilterDescriptor_t dw,
                                                             cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  CUDNN_HANDLE_CALL("cudnnGetConvolutionBackwardFilterWorkspaceSize", handle, algorithm);
  return Size(EnginesOf(ConvolutionPass::kFilterGradient, x, dw, convolution, dy), kFilterBest, kFilterLeast, algorithm,
              bytes);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void*, const cudnnTensorDescriptor_t x,
                                             const void*, const cudnnTensorDescriptor_t dy, const void*,
                                             const cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void*, size_t workspace,
                                             const void*, const cudnnFilterDescriptor_t dw, void*) {
  CUDNN_HANDLE_CALL("cudnnConvolutionBackwardFilter", handle, algorithm, workspace);
  return Compute("cudnnConvolutionBackwardFilter", *library,
                 EnginesOf(ConvolutionPass::kFilterGradient, x, dw, convolution, dy), kFilterBest, kFilterLeast,
                 algorithm, workspace);
}
