// Names and texts of errors.
#include "phantom/cuda/driver.h"

namespace {

struct ErrorText {
  CUresult error;
  const char* name;
  const char* text;
};

#define ERROR(name, text) \
  { name, #name, text }
constexpr ErrorText kErrors[] = {
    ERROR(CUDA_SUCCESS, "no error"),
    ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    ERROR(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
    ERROR(CUDA_ERROR_UNMAP_FAILED, "unmapping of buffer object failed"),
    ERROR(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"),
    ERROR(CUDA_ERROR_NOT_MAPPED, "resource not mapped"),
    ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices"),
    ERROR(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    ERROR(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part or all of the requested memory range is already mapped"),
    ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region"),
    ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not initiated in this stream"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
          "capture sequence contains a fork that was not joined to the primary stream"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream"),
    ERROR(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
          "attempt to terminate a thread-local capture sequence from another thread"),
    ERROR(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
          "the graph update was not performed because it included changes which violated constraints specific to "
          "instantiated graph update"),
    ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef ERROR

}  // namespace

CUresult cuGetErrorString(CUresult error, const char** out) {
  for (const ErrorText& row : kErrors) {
    if (row.error != error) continue;
    *out = row.text;
    return CUDA_SUCCESS;
  }
  *out = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char** out) {
  for (const ErrorText& row : kErrors) {
    if (row.error != error) continue;
    *out = row.name;
    return CUDA_SUCCESS;
  }
  *out = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}
