// Limits of the context, and formats of arrays, of which there are none.
#include "phantom/core/limits.h"

#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  RUNTIME_DEVICE_CALL("cudaDeviceGetLimit", limit);
  if (!value) return Return(Code::kInvalidValue);
  return Return(TheLimits().Get(limit, *value));
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  RUNTIME_DEVICE_CALL("cudaDeviceSetLimit", limit, value);
  return Return(TheLimits().Set(limit, value));
}

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
