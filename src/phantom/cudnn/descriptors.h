// The descriptors of the functions that are older than the backend interface.
#pragma once

#include <optional>
#include <vector>

#include "device/workspace_rules.h"
#include "phantom/cudnn/library.h"

namespace ebbtide::phantom {

struct TensorDescriptor {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int> dims, strides;

  std::int64_t Elements() const;
  bool IsChannelsLast() const;
};

struct FilterDescriptor {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  std::vector<int> dims;
};

struct ConvolutionDescriptor {
  std::vector<int> padding, stride, dilation;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math_type = CUDNN_DEFAULT_MATH;
  int groups = 1;
};

struct ActivationDescriptor {
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_IDENTITY;
  cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
  double coefficient = 0;
};

struct PoolingDescriptor {
  cudnnPoolingMode_t mode = CUDNN_POOLING_MAX;
  std::vector<int> window, padding, stride;
};

struct SpatialTransformerDescriptor {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int> dims;
};

struct DropoutDescriptor {
  float probability = 0;
  void* states = nullptr;
  unsigned long long seed = 0;
};

struct CtcDescriptor {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int longest_label = 0;
};

struct RnnDescriptor {
  cudnnRNNMode_t cell = CUDNN_LSTM;
  cudnnRNNBiasMode_t bias = CUDNN_RNN_DOUBLE_BIAS;
  cudnnDirectionMode_t direction = CUDNN_UNIDIRECTIONAL;
  cudnnRNNInputMode_t input = CUDNN_LINEAR_INPUT;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::int64_t input_size = 0, hidden_size = 0, projection_size = 0, layers = 0;
  float dropout = 0;
};

struct RnnDataDescriptor {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnRNNDataLayout_t layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
  std::int64_t length = 0, batch = 0, vector_size = 0;
};

// All descriptors of one kind that the program has made.
template <class T>
Handles<T>& Known() {
  static auto* known = new Handles<T>;
  return *known;
}

template <class T, class Handle>
cudnnStatus_t CreateDescriptor(Handle* out) {
  if (!out) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *out = reinterpret_cast<Handle>(Known<T>().Create().get());
  return CUDNN_STATUS_SUCCESS;
}

// Destroying null is no error.
template <class T>
cudnnStatus_t DestroyDescriptor(const void* handle) {
  return !handle || Known<T>().Remove(handle) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

// Null where the handle is not one of a T.
template <class T>
std::shared_ptr<T> Get(const void* handle) {
  return Known<T>().Find(handle);
}

}  // namespace ebbtide::phantom

// Declares `variable`, the descriptor behind `handle`, or ends the call.
#define CUDNN_DESCRIPTOR(Type, variable, handle)                                                                  \
  std::shared_ptr<::ebbtide::phantom::Type> variable = ::ebbtide::phantom::Get<::ebbtide::phantom::Type>(handle); \
  if (!variable) return CUDNN_STATUS_BAD_PARAM
