// Hints about managed memory, which always lies in host memory here, and attributes of streams.
#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;

namespace {

cudaError_t Hint(const void* pointer, cudaStream_t handle) {
  RUNTIME_STREAM(stream, handle);
  std::optional<Range> range = TheDevice().space.Find(AddressOf(pointer));
  return Return(range && range->kind == RangeKind::kManaged ? Code::kSuccess : Code::kInvalidValue);
}

}  // namespace

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* pointer, size_t bytes, unsigned flags) {
  RUNTIME_DEVICE_CALL("cudaStreamAttachMemAsync", stream, pointer, bytes, flags);
  return Hint(pointer, stream);
}

#if EBBTIDE_CUDA_GENERATION >= 13
cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, cudaMemLocation, unsigned flags,
                                 cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaMemPrefetchAsync", pointer, bytes, flags, stream);
  return Hint(pointer, stream);
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  RUNTIME_DEVICE_CALL("cudaStreamGetDevice", handle);
  RUNTIME_STREAM(stream, handle);
  if (!device) return Return(Code::kInvalidValue);
  *device = 0;
  return cudaSuccess;
}
#else
cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, int device, cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaMemPrefetchAsync", pointer, bytes, device, stream);
  return Hint(pointer, stream);
}
#endif

// Access policies and the like: nothing that the phantom does depends on them.
cudaError_t cudaStreamSetAttribute(cudaStream_t handle, cudaStreamAttrID attribute, const cudaStreamAttrValue* value) {
  RUNTIME_DEVICE_CALL("cudaStreamSetAttribute", handle, attribute);
  RUNTIME_STREAM(stream, handle);
  return Return(value ? Code::kSuccess : Code::kInvalidValue);
}

cudaError_t cudaStreamGetAttribute(cudaStream_t handle, cudaStreamAttrID attribute, cudaStreamAttrValue* value) {
  RUNTIME_DEVICE_CALL("cudaStreamGetAttribute", handle, attribute);
  RUNTIME_STREAM(stream, handle);
  if (!value) return Return(Code::kInvalidValue);
  *value = {};
  if (attribute == cudaLaunchAttributePriority) value->priority = stream->priority();
  return cudaSuccess;
}
