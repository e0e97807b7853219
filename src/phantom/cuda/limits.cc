// Limits and preferences of a context: remembered or accepted, and nothing follows from them.
#include "phantom/core/limits.h"

#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  DRIVER_CONTEXT_CALL("cuCtxGetLimit", limit);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  return Answer(TheLimits().Get(limit, *value));
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  DRIVER_CONTEXT_CALL("cuCtxSetLimit", limit, value);
  return Answer(TheLimits().Set(limit, value));
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  DRIVER_CONTEXT_CALL("cuCtxGetCacheConfig");
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_FUNC_CACHE_PREFER_NONE;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  DRIVER_CONTEXT_CALL("cuCtxSetCacheConfig", config);
  return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache() {
  DRIVER_CONTEXT_CALL("cuCtxResetPersistingL2Cache");
  return CUDA_SUCCESS;
}

extern "C" __attribute__((visibility("default"))) CUresult cuProfilerStart() {
  DRIVER_CONTEXT_CALL("cuProfilerStart");
  return CUDA_SUCCESS;
}

extern "C" __attribute__((visibility("default"))) CUresult cuProfilerStop() {
  DRIVER_CONTEXT_CALL("cuProfilerStop");
  return CUDA_SUCCESS;
}
