// Errors: the last of each thread, names and texts.
#include "phantom/cudart/runtime.h"

namespace ebbtide::phantom {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define ERROR(name, text) \
  { name, #name, text }
constexpr ErrorText kErrors[] = {
    ERROR(cudaSuccess, "no error"),
    ERROR(cudaErrorInvalidValue, "invalid argument"),
    ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ERROR(cudaErrorInitializationError, "initialization error"),
    ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ERROR(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    ERROR(cudaErrorMissingConfiguration, "__global__ function call is not configured"),
    ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
    ERROR(cudaErrorDeviceUninitialized, "invalid device context"),
    ERROR(cudaErrorMapBufferObjectFailed, "mapping of buffer object failed"),
    ERROR(cudaErrorUnmapBufferObjectFailed, "unmapping of buffer object failed"),
    ERROR(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    ERROR(cudaErrorFileNotFound, "file not found"),
    ERROR(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
    ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    ERROR(cudaErrorNotReady, "device not ready"),
    ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    ERROR(cudaErrorContextIsDestroyed, "context is destroyed"),
    ERROR(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    ERROR(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    ERROR(cudaErrorNotPermitted, "operation not permitted"),
    ERROR(cudaErrorNotSupported, "operation not supported"),
    ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ERROR(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    ERROR(cudaErrorStreamCaptureUnmatched, "capture was not initiated in this stream"),
    ERROR(cudaErrorStreamCaptureUnjoined, "capture sequence contains a fork that was not joined to the primary stream"),
    ERROR(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    ERROR(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    ERROR(cudaErrorStreamCaptureWrongThread,
          "attempt to terminate a thread-local capture sequence from another thread"),
    ERROR(cudaErrorGraphExecUpdateFailure,
          "the graph update was not performed because it included changes which violated constraints specific to "
          "instantiated graph update"),
    ERROR(cudaErrorUnknown, "unknown error"),
};
#undef ERROR

const ErrorText* FindError(cudaError_t error) {
  for (const ErrorText& row : kErrors)
    if (row.error == error) return &row;
  return nullptr;
}

}  // namespace

cudaError_t Return(Code code) {
  auto error = static_cast<cudaError_t>(code);
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

}  // namespace ebbtide::phantom

using namespace ebbtide::phantom;

cudaError_t cudaGetLastError() {
  cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* row = FindError(error);
  return row ? row->name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* row = FindError(error);
  return row ? row->text : "unrecognized error code";
}
