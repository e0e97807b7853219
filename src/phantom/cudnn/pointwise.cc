// Pooling, softmax, activations and sampling on grids: kernels without workspace.
#include "phantom/cudnn/descriptors.h"

using namespace ebbtide::phantom;

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* out) {
  CUDNN_CALL("cudnnCreatePoolingDescriptor");
  return CreateDescriptor<PoolingDescriptor>(out);
}

cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t handle) {
  CUDNN_CALL("cudnnDestroyPoolingDescriptor", handle);
  return DestroyDescriptor<PoolingDescriptor>(handle);
}

cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t handle, cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t, int window_height, int window_width,
                                          int padding_height, int padding_width, int stride_height, int stride_width) {
  CUDNN_CALL("cudnnSetPooling2dDescriptor", handle, mode);
  CUDNN_DESCRIPTOR(PoolingDescriptor, pooling, handle);
  *pooling = {.mode = mode,
              .window = {window_height, window_width},
              .padding = {padding_height, padding_width},
              .stride = {stride_height, stride_width}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetPoolingNdDescriptor(cudnnPoolingDescriptor_t handle, const cudnnPoolingMode_t mode,
                                          const cudnnNanPropagation_t, int count, const int* window, const int* padding,
                                          const int* stride) {
  CUDNN_CALL("cudnnSetPoolingNdDescriptor", handle, mode, count);
  CUDNN_DESCRIPTOR(PoolingDescriptor, pooling, handle);
  if (count < 1 || count > CUDNN_DIM_MAX || !window || !padding || !stride) return CUDNN_STATUS_BAD_PARAM;
  *pooling = {.mode = mode,
              .window = {window, window + count},
              .padding = {padding, padding + count},
              .stride = {stride, stride + count}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling, const void*,
                                  const cudnnTensorDescriptor_t x, const void*, const void*,
                                  const cudnnTensorDescriptor_t y, void*) {
  CUDNN_HANDLE_CALL("cudnnPoolingForward", handle);
  if (!Get<PoolingDescriptor>(pooling) || !Get<TensorDescriptor>(x) || !Get<TensorDescriptor>(y))
    return CUDNN_STATUS_BAD_PARAM;
  return Run("cudnnPoolingForward", *library);
}

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode,
                                  const void*, const cudnnTensorDescriptor_t x, const void*, const void*,
                                  const cudnnTensorDescriptor_t y, void*) {
  CUDNN_HANDLE_CALL("cudnnSoftmaxForward", handle, algorithm, mode);
  if (!Get<TensorDescriptor>(x) || !Get<TensorDescriptor>(y)) return CUDNN_STATUS_BAD_PARAM;
  return Run("cudnnSoftmaxForward", *library);
}

cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode,
                                   const void*, const cudnnTensorDescriptor_t y, const void*,
                                   const cudnnTensorDescriptor_t dy, const void*, const void*,
                                   const cudnnTensorDescriptor_t dx, void*) {
  CUDNN_HANDLE_CALL("cudnnSoftmaxBackward", handle, algorithm, mode);
  if (!Get<TensorDescriptor>(y) || !Get<TensorDescriptor>(dy) || !Get<TensorDescriptor>(dx))
    return CUDNN_STATUS_BAD_PARAM;
  return Run("cudnnSoftmaxBackward", *library);
}

cudnnStatus_t cudnnCreateSpatialTransformerDescriptor(cudnnSpatialTransformerDescriptor_t* out) {
  CUDNN_CALL("cudnnCreateSpatialTransformerDescriptor");
  return CreateDescriptor<SpatialTransformerDescriptor>(out);
}

cudnnStatus_t cudnnDestroySpatialTransformerDescriptor(cudnnSpatialTransformerDescriptor_t handle) {
  CUDNN_CALL("cudnnDestroySpatialTransformerDescriptor", handle);
  return DestroyDescriptor<SpatialTransformerDescriptor>(handle);
}

cudnnStatus_t cudnnSetSpatialTransformerNdDescriptor(cudnnSpatialTransformerDescriptor_t handle,
                                                     cudnnSamplerType_t sampler, cudnnDataType_t type, const int count,
                                                     const int* dims) {
  CUDNN_CALL("cudnnSetSpatialTransformerNdDescriptor", handle, sampler, type, count);
  CUDNN_DESCRIPTOR(SpatialTransformerDescriptor, transformer, handle);
  if (count < 1 || count > CUDNN_DIM_MAX || !dims) return CUDNN_STATUS_BAD_PARAM;
  *transformer = {.type = type, .dims = {dims, dims + count}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSpatialTfGridGeneratorForward(cudnnHandle_t handle,
                                                 const cudnnSpatialTransformerDescriptor_t transformer, const void*,
                                                 void*) {
  CUDNN_HANDLE_CALL("cudnnSpatialTfGridGeneratorForward", handle);
  if (!Get<SpatialTransformerDescriptor>(transformer)) return CUDNN_STATUS_BAD_PARAM;
  return Run("cudnnSpatialTfGridGeneratorForward", *library);
}

cudnnStatus_t cudnnSpatialTfGridGeneratorBackward(cudnnHandle_t handle,
                                                  const cudnnSpatialTransformerDescriptor_t transformer, const void*,
                                                  void*) {
  CUDNN_HANDLE_CALL("cudnnSpatialTfGridGeneratorBackward", handle);
  if (!Get<SpatialTransformerDescriptor>(transformer)) return CUDNN_STATUS_BAD_PARAM;
  return Run("cudnnSpatialTfGridGeneratorBackward", *library);
}

cudnnStatus_t cudnnSpatialTfSamplerForward(cudnnHandle_t handle, cudnnSpatialTransformerDescriptor_t transformer,
                                           const void*, const cudnnTensorDescriptor_t x, const void*, const void*,
                                           const void*, cudnnTensorDescriptor_t y, void*) {
  CUDNN_HANDLE_CALL("cudnnSpatialTfSamplerForward", handle);
  if (!Get<SpatialTransformerDescriptor>(transformer) || !Get<TensorDescriptor>(x) || !Get<TensorDescriptor>(y))
    return CUDNN_STATUS_BAD_PARAM;
  return Run("cudnnSpatialTfSamplerForward", *library);
}

cudnnStatus_t cudnnSpatialTfSamplerBackward(cudnnHandle_t handle, cudnnSpatialTransformerDescriptor_t transformer,
                                            const void*, const cudnnTensorDescriptor_t x, const void*, const void*,
                                            const cudnnTensorDescriptor_t dx, void*, const void*,
                                            const cudnnTensorDescriptor_t dy, const void*, const void*, const void*,
                                            void*) {
  CUDNN_HANDLE_CALL("cudnnSpatialTfSamplerBackward", handle);
  if (!Get<SpatialTransformerDescriptor>(transformer) || !Get<TensorDescriptor>(x) || !Get<TensorDescriptor>(dx) ||
      !Get<TensorDescriptor>(dy))
    return CUDNN_STATUS_BAD_PARAM;
  return Run("cudnnSpatialTfSamplerBackward", *library);
}
