// Version, handles, streams and error texts.
#include "phantom/cudnn/library.h"

#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>

using namespace ebbtide::phantom;

namespace {

// Programs refuse a library that is older than what they were built with: those of CUDA 12 on PyPI bring 9.1.
#if EBBTIDE_CUDA_GENERATION >= 13
constexpr int kMajor = CUDNN_MAJOR, kMinor = CUDNN_MINOR, kPatch = CUDNN_PATCHLEVEL;
constexpr std::size_t kRuntimeVersion = 13000;
#else
constexpr int kMajor = 9, kMinor = 1, kPatch = 0;
constexpr std::size_t kRuntimeVersion = 12040;
#endif

thread_local std::string last_error;

struct Callback {
  std::mutex mutex;
  unsigned mask = 0;
  void* data = nullptr;
  cudnnCallback_t function = nullptr;
};

Callback& TheCallback() {
  static auto* callback = new Callback;
  return *callback;
}

}  // namespace

namespace ebbtide::phantom {

Handles<Library>& Libraries() {
  static auto* libraries = new Handles<Library>;
  return *libraries;
}

cudnnStatus_t FromCode(Code code) {
  switch (code) {
    case Code::kSuccess: return CUDNN_STATUS_SUCCESS;
    case Code::kOutOfMemory: return CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    case Code::kInvalidValue: return CUDNN_STATUS_BAD_PARAM;
    case Code::kNotInitialized:
    case Code::kNoDevice: return CUDNN_STATUS_NOT_INITIALIZED;
    case Code::kNotSupported: return CUDNN_STATUS_NOT_SUPPORTED;
    default: return CUDNN_STATUS_EXECUTION_FAILED_CUDART;
  }
}

cudnnStatus_t Refuse(const std::string& what) {
  last_error = "phantom: " + what + " is not modelled";
  // NotModelled keeps the pointer.
  static std::mutex mutex;
  static auto* names = new std::set<std::string>;
  const char* name = nullptr;
  {
    std::lock_guard lock(mutex);
    name = names->insert(what).first->c_str();
  }
  NotModelled(name);
  return CUDNN_STATUS_NOT_SUPPORTED;
}

Bytes ItemSize(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
    case CUDNN_DATA_INT64:
    case CUDNN_DATA_COMPLEX_FP32: return 8;
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
    case CUDNN_DATA_UINT32: return 4;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16: return 2;
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
    case CUDNN_DATA_BOOLEAN:
    case CUDNN_DATA_BYTE_BOOLEAN:
    case CUDNN_DATA_FP8_E4M3:
    case CUDNN_DATA_FP8_E5M2:
    case CUDNN_DATA_FP8_E8M0: return 1;
    case CUDNN_DATA_COMPLEX_FP64: return 16;
    default: return 0;
  }
}

}  // namespace ebbtide::phantom

size_t cudnnGetVersion() { return kMajor * 10000 + kMinor * 100 + kPatch; }

size_t cudnnGetCudartVersion() { return kRuntimeVersion; }

size_t cudnnGetMaxDeviceVersion() { return kMajor == 9 && kMinor == 1 ? 900 : CUDNN_MAX_DEVICE_VERSION; }

cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int* value) {
  CUDNN_CALL("cudnnGetProperty", type);
  if (!value) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  switch (type) {
    case MAJOR_VERSION: *value = kMajor; return CUDNN_STATUS_SUCCESS;
    case MINOR_VERSION: *value = kMinor; return CUDNN_STATUS_SUCCESS;
    case PATCH_LEVEL: *value = kPatch; return CUDNN_STATUS_SUCCESS;
  }
  return CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnGraphVersionCheck() { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnOpsVersionCheck() { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnCnnVersionCheck() { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnAdvVersionCheck() { return CUDNN_STATUS_SUCCESS; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  CUDNN_CALL("cudnnCreate");
  if (!handle) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *handle = reinterpret_cast<cudnnHandle_t>(Libraries().Create().get());
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  CUDNN_CALL("cudnnDestroy", handle);
  std::shared_ptr<Library> library = Libraries().Remove(handle);
  if (!library) return CUDNN_STATUS_NOT_INITIALIZED;
  WaitForStream(library->stream);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  CUDNN_HANDLE_CALL("cudnnSetStream", handle, stream);
  if (!IsStream(stream)) return CUDNN_STATUS_BAD_PARAM;
  library->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  CUDNN_HANDLE_CALL("cudnnGetStream", handle);
  if (!stream) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *stream = static_cast<cudaStream_t>(library->stream);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetCallback(unsigned mask, void* data, cudnnCallback_t function) {
  CUDNN_CALL("cudnnSetCallback", mask);
  Callback& callback = TheCallback();
  std::lock_guard lock(callback.mutex);
  callback.mask = mask;
  callback.data = data;
  callback.function = function;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetCallback(unsigned* mask, void** data, cudnnCallback_t* function) {
  CUDNN_CALL("cudnnGetCallback");
  Callback& callback = TheCallback();
  std::lock_guard lock(callback.mutex);
  if (mask) *mask = callback.mask;
  if (data) *data = callback.data;
  if (function) *function = callback.function;
  return CUDNN_STATUS_SUCCESS;
}

void cudnnGetLastErrorString(char* message, size_t size) {
  if (message && size > 0) std::snprintf(message, size, "%s", last_error.c_str());
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
#define NAME(code) \
  case code: return #code
  switch (static_cast<int>(status)) {
    NAME(CUDNN_STATUS_SUCCESS);
    NAME(CUDNN_STATUS_NOT_INITIALIZED);
    NAME(CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH);
    NAME(CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH);
    NAME(CUDNN_STATUS_DEPRECATED);
    NAME(CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED);
    NAME(CUDNN_STATUS_BAD_PARAM);
    NAME(CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    NAME(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    NAME(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    NAME(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND);
    NAME(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    NAME(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
    NAME(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
    NAME(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
    NAME(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    NAME(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
    NAME(CUDNN_STATUS_NOT_SUPPORTED);
    NAME(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    NAME(CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
    NAME(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    NAME(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
    NAME(CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH);
    NAME(CUDNN_STATUS_INTERNAL_ERROR);
    NAME(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    NAME(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
    NAME(CUDNN_STATUS_EXECUTION_FAILED);
    NAME(CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER);
    NAME(CUDNN_STATUS_EXECUTION_FAILED_CUDART);
    default: return "CUDNN_UNKNOWN_STATUS";
  }
#undef NAME
}
