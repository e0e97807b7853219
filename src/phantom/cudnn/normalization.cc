// Batch norm of the interface before the backend.
#include "phantom/cudnn/descriptors.h"

using namespace ebbtide::phantom;
using ebbtide::BatchNormProblem;
using ebbtide::Bytes;
using ebbtide::ConvolutionType;

namespace {

BatchNormProblem BatchNormProblemOf(const TensorDescriptor& x, cudnnBatchNormOps_t operations) {
  ConvolutionType type = ConvolutionType::kFloat32;
  if (x.type == CUDNN_DATA_HALF) type = ConvolutionType::kFloat16;
  if (x.type == CUDNN_DATA_BFLOAT16) type = ConvolutionType::kBFloat16;
  if (x.type == CUDNN_DATA_DOUBLE) type = ConvolutionType::kFloat64;
  return {.type = type,
          .is_channels_last = x.IsChannelsLast(),
          .elements = x.Elements(),
          .channels = x.dims.size() > 1 ? x.dims[1] : 1,
          .has_activation = operations != CUDNN_BATCHNORM_OPS_BN};
}

}  // namespace

cudnnStatus_t cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t derived, const cudnnTensorDescriptor_t handle,
                                            cudnnBatchNormMode_t mode) {
  CUDNN_CALL("cudnnDeriveBNTensorDescriptor", derived, handle, mode);
  CUDNN_DESCRIPTOR(TensorDescriptor, x, handle);
  CUDNN_DESCRIPTOR(TensorDescriptor, out, derived);
  out->type = x->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  out->dims.assign(x->dims.size(), 1);
  for (std::size_t i = 1; i < x->dims.size(); ++i)
    if (i == 1 || mode == CUDNN_BATCHNORM_PER_ACTIVATION) out->dims[i] = x->dims[i];
  out->strides.assign(x->dims.size(), 1);
  for (std::size_t i = x->dims.size() - 1; i-- > 0;) out->strides[i] = out->strides[i + 1] * out->dims[i + 1];
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t operations, const cudnnTensorDescriptor_t x,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnActivationDescriptor_t, size_t* bytes) {
  CUDNN_HANDLE_CALL("cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize", handle, mode, operations);
  CUDNN_DESCRIPTOR(TensorDescriptor, tensor, x);
  if (!bytes) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *bytes = static_cast<std::size_t>(BatchNormForwardWorkspace(BatchNormProblemOf(*tensor, operations), Profile()));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t operations, const cudnnTensorDescriptor_t x,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnActivationDescriptor_t, size_t* bytes) {
  CUDNN_HANDLE_CALL("cudnnGetBatchNormalizationBackwardExWorkspaceSize", handle, mode, operations);
  CUDNN_DESCRIPTOR(TensorDescriptor, tensor, x);
  if (!bytes) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *bytes = static_cast<std::size_t>(BatchNormBackwardWorkspace(BatchNormProblemOf(*tensor, operations), Profile()));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(cudnnHandle_t handle, cudnnBatchNormMode_t mode,
                                                                   cudnnBatchNormOps_t operations,
                                                                   const cudnnActivationDescriptor_t,
                                                                   const cudnnTensorDescriptor_t x, size_t* bytes) {
  CUDNN_HANDLE_CALL("cudnnGetBatchNormalizationTrainingExReserveSpaceSize", handle, mode, operations);
  CUDNN_DESCRIPTOR(TensorDescriptor, tensor, x);
  if (!bytes) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *bytes = static_cast<std::size_t>(BatchNormReserve(BatchNormProblemOf(*tensor, operations)));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void*,
                                                      const void*, const cudnnTensorDescriptor_t x, const void*,
                                                      const cudnnTensorDescriptor_t y, void*,
                                                      const cudnnTensorDescriptor_t parameters, const void*,
                                                      const void*, const void*, const void*, double) {
  CUDNN_HANDLE_CALL("cudnnBatchNormalizationForwardInference", handle, mode);
  if (!Get<TensorDescriptor>(x) || !Get<TensorDescriptor>(y) || !Get<TensorDescriptor>(parameters))
    return CUDNN_STATUS_BAD_PARAM;
  return Run("cudnnBatchNormalizationForwardInference", *library);
}

cudnnStatus_t cudnnBatchNormalizationForwardTraining(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void*,
                                                     const void*, const cudnnTensorDescriptor_t x, const void*,
                                                     const cudnnTensorDescriptor_t y, void*,
                                                     const cudnnTensorDescriptor_t parameters, const void*, const void*,
                                                     double, void*, void*, double, void*, void*) {
  CUDNN_HANDLE_CALL("cudnnBatchNormalizationForwardTraining", handle, mode);
  if (!Get<TensorDescriptor>(x) || !Get<TensorDescriptor>(y) || !Get<TensorDescriptor>(parameters))
    return CUDNN_STATUS_BAD_PARAM;
  return Run("cudnnBatchNormalizationForwardTraining", *library);
}

cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t operations, const void*, const void*,
    const cudnnTensorDescriptor_t x, const void*, const cudnnTensorDescriptor_t, const void*,
    const cudnnTensorDescriptor_t y, void*, const cudnnTensorDescriptor_t parameters, const void*, const void*, double,
    void*, void*, double, void*, void*, cudnnActivationDescriptor_t, void*, size_t workspace, void*, size_t reserve) {
  CUDNN_HANDLE_CALL("cudnnBatchNormalizationForwardTrainingEx", handle, mode, operations, workspace, reserve);
  CUDNN_DESCRIPTOR(TensorDescriptor, tensor, x);
  if (!Get<TensorDescriptor>(y) || !Get<TensorDescriptor>(parameters)) return CUDNN_STATUS_BAD_PARAM;
  BatchNormProblem problem = BatchNormProblemOf(*tensor, operations);
  if (static_cast<Bytes>(workspace) < BatchNormForwardWorkspace(problem, Profile()) ||
      static_cast<Bytes>(reserve) < BatchNormReserve(problem))
    return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  return Run("cudnnBatchNormalizationForwardTrainingEx", *library);
}

cudnnStatus_t cudnnBatchNormalizationBackward(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void*, const void*,
                                              const void*, const void*, const cudnnTensorDescriptor_t x, const void*,
                                              const cudnnTensorDescriptor_t dy, const void*,
                                              const cudnnTensorDescriptor_t dx, void*,
                                              const cudnnTensorDescriptor_t parameters, const void*, void*, void*,
                                              double, const void*, const void*) {
  CUDNN_HANDLE_CALL("cudnnBatchNormalizationBackward", handle, mode);
  if (!Get<TensorDescriptor>(x) || !Get<TensorDescriptor>(dy) || !Get<TensorDescriptor>(dx) ||
      !Get<TensorDescriptor>(parameters))
    return CUDNN_STATUS_BAD_PARAM;
  return Run("cudnnBatchNormalizationBackward", *library);
}

cudnnStatus_t cudnnBatchNormalizationBackwardEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t operations, const void*, const void*,
    const void*, const void*, const cudnnTensorDescriptor_t x, const void*, const cudnnTensorDescriptor_t, const void*,
    const cudnnTensorDescriptor_t dy, const void*, const cudnnTensorDescriptor_t, void*,
    const cudnnTensorDescriptor_t dx, void*, const cudnnTensorDescriptor_t parameters, const void*, const void*, void*,
    void*, double, const void*, const void*, cudnnActivationDescriptor_t, void*, size_t workspace, void*,
    size_t reserve) {
  CUDNN_HANDLE_CALL("cudnnBatchNormalizationBackwardEx", handle, mode, operations, workspace, reserve);
  CUDNN_DESCRIPTOR(TensorDescriptor, tensor, x);
  if (!Get<TensorDescriptor>(dy) || !Get<TensorDescriptor>(dx) || !Get<TensorDescriptor>(parameters))
    return CUDNN_STATUS_BAD_PARAM;
  BatchNormProblem problem = BatchNormProblemOf(*tensor, operations);
  if (static_cast<Bytes>(workspace) < BatchNormBackwardWorkspace(problem, Profile()) ||
      static_cast<Bytes>(reserve) < BatchNormReserve(problem))
    return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  return Run("cudnnBatchNormalizationBackwardEx", *library);
}
