// Dropout states and CTC loss.
#include <algorithm>

#include "phantom/cudnn/descriptors.h"

using namespace ebbtide::phantom;
using ebbtide::Bytes;

namespace {

cudnnStatus_t SetDropout(cudnnDropoutDescriptor_t handle, float probability, void* states, size_t bytes,
                         unsigned long long seed) {
  CUDNN_DESCRIPTOR(DropoutDescriptor, dropout, handle);
  if (probability < 0 || probability > 1) return CUDNN_STATUS_BAD_PARAM;
  if (states && static_cast<Bytes>(bytes) < ebbtide::DropoutStates(Profile()))
    return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  *dropout = {.probability = probability, .states = states, .seed = seed};
  return CUDNN_STATUS_SUCCESS;
}

Bytes CtcBytes(const TensorDescriptor& probabilities, int longest_label) {
  return ebbtide::CtcWorkspace(ItemSize(probabilities.type), probabilities.dims[0], probabilities.dims[1],
                               probabilities.dims[2], longest_label);
}

}  // namespace

cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t* out) {
  CUDNN_CALL("cudnnCreateDropoutDescriptor");
  return CreateDescriptor<DropoutDescriptor>(out);
}

cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t handle) {
  CUDNN_CALL("cudnnDestroyDropoutDescriptor", handle);
  return DestroyDescriptor<DropoutDescriptor>(handle);
}

cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t handle, size_t* bytes) {
  CUDNN_HANDLE_CALL("cudnnDropoutGetStatesSize", handle);
  if (!bytes) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *bytes = static_cast<std::size_t>(ebbtide::DropoutStates(Profile()));
  return CUDNN_STATUS_SUCCESS;
}

// Fills the states with a kernel.
cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t handle, float probability,
                                        void* states, size_t bytes, unsigned long long seed) {
  CUDNN_HANDLE_CALL("cudnnSetDropoutDescriptor", handle, descriptor, bytes);
  cudnnStatus_t status = SetDropout(descriptor, probability, states, bytes, seed);
  if (status != CUDNN_STATUS_SUCCESS || !states) return status;
  return Run("cudnnSetDropoutDescriptor", *library);
}

cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t handle,
                                            float probability, void* states, size_t bytes, unsigned long long seed) {
  CUDNN_CALL("cudnnRestoreDropoutDescriptor", handle, descriptor, bytes);
  return SetDropout(descriptor, probability, states, bytes, seed);
}

cudnnStatus_t cudnnCreateCTCLossDescriptor(cudnnCTCLossDescriptor_t* out) {
  CUDNN_CALL("cudnnCreateCTCLossDescriptor");
  return CreateDescriptor<CtcDescriptor>(out);
}

cudnnStatus_t cudnnDestroyCTCLossDescriptor(cudnnCTCLossDescriptor_t handle) {
  CUDNN_CALL("cudnnDestroyCTCLossDescriptor", handle);
  return DestroyDescriptor<CtcDescriptor>(handle);
}

cudnnStatus_t cudnnSetCTCLossDescriptorEx(cudnnCTCLossDescriptor_t handle, cudnnDataType_t type,
                                          cudnnLossNormalizationMode_t, cudnnNanPropagation_t) {
  CUDNN_CALL("cudnnSetCTCLossDescriptorEx", handle, type);
  CUDNN_DESCRIPTOR(CtcDescriptor, ctc, handle);
  *ctc = {.type = type, .longest_label = 0};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetCTCLossDescriptor_v9(cudnnCTCLossDescriptor_t handle, cudnnDataType_t type,
                                           cudnnLossNormalizationMode_t, cudnnCTCGradMode_t, int longest_label) {
  CUDNN_CALL("cudnnSetCTCLossDescriptor", handle, type, longest_label);
  CUDNN_DESCRIPTOR(CtcDescriptor, ctc, handle);
  *ctc = {.type = type, .longest_label = longest_label};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetCTCLossWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t probabilities,
                                           const cudnnTensorDescriptor_t, const int*, const int* label_lengths,
                                           const int*, cudnnCTCLossAlgo_t algorithm,
                                           cudnnCTCLossDescriptor_t descriptor, size_t* bytes) {
  CUDNN_HANDLE_CALL("cudnnGetCTCLossWorkspaceSize", handle, algorithm);
  CUDNN_DESCRIPTOR(TensorDescriptor, tensor, probabilities);
  CUDNN_DESCRIPTOR(CtcDescriptor, ctc, descriptor);
  if (!bytes || !label_lengths) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (tensor->dims.size() != 3) return CUDNN_STATUS_BAD_PARAM;
  *bytes =
      static_cast<std::size_t>(CtcBytes(*tensor, *std::max_element(label_lengths, label_lengths + tensor->dims[1])));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetCTCLossWorkspaceSize_v8(cudnnHandle_t handle, cudnnCTCLossAlgo_t algorithm,
                                              cudnnCTCLossDescriptor_t descriptor,
                                              const cudnnTensorDescriptor_t probabilities,
                                              const cudnnTensorDescriptor_t, size_t* bytes) {
  CUDNN_HANDLE_CALL("cudnnGetCTCLossWorkspaceSize", handle, algorithm);
  CUDNN_DESCRIPTOR(TensorDescriptor, tensor, probabilities);
  CUDNN_DESCRIPTOR(CtcDescriptor, ctc, descriptor);
  if (!bytes) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (tensor->dims.size() != 3) return CUDNN_STATUS_BAD_PARAM;
  *bytes = static_cast<std::size_t>(CtcBytes(*tensor, ctc->longest_label));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCTCLoss(cudnnHandle_t handle, const cudnnTensorDescriptor_t probabilities, const void*, const int*,
                           const int*, const int*, void*, const cudnnTensorDescriptor_t gradients, void*,
                           cudnnCTCLossAlgo_t algorithm, cudnnCTCLossDescriptor_t descriptor, void*, size_t workspace) {
  CUDNN_HANDLE_CALL("cudnnCTCLoss", handle, algorithm, workspace);
  if (!Get<TensorDescriptor>(probabilities) || !Get<TensorDescriptor>(gradients) || !Get<CtcDescriptor>(descriptor))
    return CUDNN_STATUS_BAD_PARAM;
  return Run("cudnnCTCLoss", *library);
}

cudnnStatus_t cudnnCTCLoss_v8(cudnnHandle_t handle, cudnnCTCLossAlgo_t algorithm, cudnnCTCLossDescriptor_t descriptor,
                              const cudnnTensorDescriptor_t probabilities, const void*, const int*, const int*,
                              const int*, void*, const cudnnTensorDescriptor_t gradients, void*, size_t workspace,
                              void*) {
  CUDNN_HANDLE_CALL("cudnnCTCLoss", handle, algorithm, workspace);
  if (!Get<TensorDescriptor>(probabilities) || !Get<TensorDescriptor>(gradients) || !Get<CtcDescriptor>(descriptor))
    return CUDNN_STATUS_BAD_PARAM;
  return Run("cudnnCTCLoss", *library);
}
