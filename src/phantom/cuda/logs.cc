// The driver's log of errors: programs may listen, but there is nothing in it.
#include <atomic>

#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

CUresult cuLogsRegisterCallback(CUlogsCallback function, void* data, CUlogsCallbackHandle* out) {
  DRIVER_ANY_CALL("cuLogsRegisterCallback", data);
  static std::atomic<std::uintptr_t> next{1};
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  if (out) *out = reinterpret_cast<CUlogsCallbackHandle>(next.fetch_add(1, std::memory_order_relaxed));
  return CUDA_SUCCESS;
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle) {
  DRIVER_ANY_CALL("cuLogsUnregisterCallback", handle);
  return CUDA_SUCCESS;
}
