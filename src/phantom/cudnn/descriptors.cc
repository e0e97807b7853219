// Tensor, filter, activation, pooling and dropout descriptors: made, set, read and destroyed.
#include "phantom/cudnn/descriptors.h"

#include <algorithm>

using namespace ebbtide::phantom;

namespace ebbtide::phantom {

std::int64_t TensorDescriptor::Elements() const {
  std::int64_t product = dims.empty() ? 0 : 1;
  for (int dim : dims) product = SaturatingMul(product, dim);
  return product;
}

bool TensorDescriptor::IsChannelsLast() const { return dims.size() > 2 && dims[1] > 1 && strides[1] == 1; }

}  // namespace ebbtide::phantom

namespace {

bool AreSizes(int count, const int* sizes) {
  return count > 0 && count <= CUDNN_DIM_MAX && sizes &&
         std::all_of(sizes, sizes + count, [](int size) { return size > 0; });
}

std::vector<int> Packed(const std::vector<int>& dims, cudnnTensorFormat_t format) {
  std::vector<int> strides(dims.size());
  int stride = 1;
  if (format == CUDNN_TENSOR_NHWC) {
    strides[1] = 1;
    stride = dims[1];
  }
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (format == CUDNN_TENSOR_NHWC && i == 1) continue;
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

cudnnStatus_t SetTensor(cudnnTensorDescriptor_t handle, cudnnDataType_t type, std::vector<int> dims,
                        std::vector<int> strides) {
  CUDNN_DESCRIPTOR(TensorDescriptor, tensor, handle);
  tensor->type = type;
  tensor->dims = std::move(dims);
  tensor->strides = std::move(strides);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* out) {
  CUDNN_CALL("cudnnCreateTensorDescriptor");
  return CreateDescriptor<TensorDescriptor>(out);
}

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t handle) {
  CUDNN_CALL("cudnnDestroyTensorDescriptor", handle);
  return DestroyDescriptor<TensorDescriptor>(handle);
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t handle, cudnnDataType_t type, int count,
                                         const int* dims, const int* strides) {
  CUDNN_CALL("cudnnSetTensorNdDescriptor", handle, type, count);
  if (!AreSizes(count, dims) || !strides) return CUDNN_STATUS_BAD_PARAM;
  return SetTensor(handle, type, {dims, dims + count}, {strides, strides + count});
}

cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t handle, cudnnTensorFormat_t format,
                                           cudnnDataType_t type, int count, const int* dims) {
  CUDNN_CALL("cudnnSetTensorNdDescriptorEx", handle, format, type, count);
  if (!AreSizes(count, dims) || count < 2) return CUDNN_STATUS_BAD_PARAM;
  if (format == CUDNN_TENSOR_NCHW_VECT_C) return Refuse("cudnnSetTensorNdDescriptorEx of vectorized channels");
  std::vector<int> sizes(dims, dims + count);
  return SetTensor(handle, type, sizes, Packed(sizes, format));
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t handle, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  CUDNN_CALL("cudnnSetTensor4dDescriptor", handle, format, type, n, c, h, w);
  std::vector<int> sizes{n, c, h, w};
  if (!AreSizes(4, sizes.data())) return CUDNN_STATUS_BAD_PARAM;
  if (format == CUDNN_TENSOR_NCHW_VECT_C) return Refuse("cudnnSetTensor4dDescriptor of vectorized channels");
  return SetTensor(handle, type, sizes, Packed(sizes, format));
}

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t handle, cudnnDataType_t type, int n, int c, int h,
                                           int w, int n_stride, int c_stride, int h_stride, int w_stride) {
  CUDNN_CALL("cudnnSetTensor4dDescriptorEx", handle, type, n, c, h, w);
  int dims[] = {n, c, h, w};
  if (!AreSizes(4, dims)) return CUDNN_STATUS_BAD_PARAM;
  return SetTensor(handle, type, {n, c, h, w}, {n_stride, c_stride, h_stride, w_stride});
}

cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t handle, int requested, cudnnDataType_t* type,
                                         int* count, int* dims, int* strides) {
  CUDNN_CALL("cudnnGetTensorNdDescriptor", handle, requested);
  CUDNN_DESCRIPTOR(TensorDescriptor, tensor, handle);
  if (requested < 0) return CUDNN_STATUS_BAD_PARAM;
  auto given = std::min(tensor->dims.size(), static_cast<std::size_t>(requested));
  if (type) *type = tensor->type;
  if (count) *count = static_cast<int>(tensor->dims.size());
  if (dims) std::copy_n(tensor->dims.begin(), given, dims);
  if (strides) std::copy_n(tensor->strides.begin(), given, strides);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetTensorSizeInBytes(const cudnnTensorDescriptor_t handle, size_t* bytes) {
  CUDNN_CALL("cudnnGetTensorSizeInBytes", handle);
  CUDNN_DESCRIPTOR(TensorDescriptor, tensor, handle);
  if (!bytes) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  std::int64_t last = 1;
  for (std::size_t i = 0; i < tensor->dims.size(); ++i)
    last += static_cast<std::int64_t>(tensor->dims[i] - 1) * tensor->strides[i];
  *bytes = static_cast<std::size_t>(last * ItemSize(tensor->type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* out) {
  CUDNN_CALL("cudnnCreateFilterDescriptor");
  return CreateDescriptor<FilterDescriptor>(out);
}

cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t handle) {
  CUDNN_CALL("cudnnDestroyFilterDescriptor", handle);
  return DestroyDescriptor<FilterDescriptor>(handle);
}

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t handle, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int count, const int* dims) {
  CUDNN_CALL("cudnnSetFilterNdDescriptor", handle, type, format, count);
  CUDNN_DESCRIPTOR(FilterDescriptor, filter, handle);
  if (!AreSizes(count, dims)) return CUDNN_STATUS_BAD_PARAM;
  *filter = {.type = type, .format = format, .dims = {dims, dims + count}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t handle, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  CUDNN_CALL("cudnnSetFilter4dDescriptor", handle, type, format, k, c, h, w);
  CUDNN_DESCRIPTOR(FilterDescriptor, filter, handle);
  int dims[] = {k, c, h, w};
  if (!AreSizes(4, dims)) return CUDNN_STATUS_BAD_PARAM;
  *filter = {.type = type, .format = format, .dims = {dims, dims + 4}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t handle, int requested, cudnnDataType_t* type,
                                         cudnnTensorFormat_t* format, int* count, int* dims) {
  CUDNN_CALL("cudnnGetFilterNdDescriptor", handle, requested);
  CUDNN_DESCRIPTOR(FilterDescriptor, filter, handle);
  if (requested < 0) return CUDNN_STATUS_BAD_PARAM;
  if (type) *type = filter->type;
  if (format) *format = filter->format;
  if (count) *count = static_cast<int>(filter->dims.size());
  if (dims) std::copy_n(filter->dims.begin(), std::min(filter->dims.size(), static_cast<std::size_t>(requested)), dims);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* out) {
  CUDNN_CALL("cudnnCreateActivationDescriptor");
  return CreateDescriptor<ActivationDescriptor>(out);
}

cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t handle) {
  CUDNN_CALL("cudnnDestroyActivationDescriptor", handle);
  return DestroyDescriptor<ActivationDescriptor>(handle);
}

cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t handle, cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t nan, double coefficient) {
  CUDNN_CALL("cudnnSetActivationDescriptor", handle, mode);
  CUDNN_DESCRIPTOR(ActivationDescriptor, activation, handle);
  *activation = {.mode = mode, .nan = nan, .coefficient = coefficient};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetActivationDescriptor(const cudnnActivationDescriptor_t handle, cudnnActivationMode_t* mode,
                                           cudnnNanPropagation_t* nan, double* coefficient) {
  CUDNN_CALL("cudnnGetActivationDescriptor", handle);
  CUDNN_DESCRIPTOR(ActivationDescriptor, activation, handle);
  if (mode) *mode = activation->mode;
  if (nan) *nan = activation->nan;
  if (coefficient) *coefficient = activation->coefficient;
  return CUDNN_STATUS_SUCCESS;
}
