// Stream-ordered memory.
#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;
using ebbtide::Bytes;

namespace {

cudaError_t Allocate(void** out, std::size_t bytes, std::shared_ptr<Pool> pool, const char* name, cudaStream_t handle) {
  if (!out) return Return(Code::kInvalidValue);
  *out = nullptr;
  if (!pool) return Return(Code::kInvalidHandle);
  if (bytes == 0) return cudaSuccess;
  RUNTIME_STREAM(stream, handle);
  Address address = 0;
  Bytes size =
      bytes > static_cast<std::size_t>(ebbtide::kTooLarge) ? ebbtide::kTooLarge + 1 : static_cast<Bytes>(bytes);
  Code code = AllocateFromPool(TheDevice(), *pool, size, *stream, name, address);
  if (code == Code::kSuccess) *out = reinterpret_cast<void*>(address);
  return Return(code);
}

}  // namespace

cudaError_t cudaMallocAsync(void** out, size_t bytes, cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaMallocAsync", bytes, stream);
  return Allocate(out, bytes, TheDevice().pools.Current(CurrentGpu()), "cudaMallocAsync", stream);
}

cudaError_t cudaMallocFromPoolAsync(void** out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaMallocFromPoolAsync", bytes, pool, stream);
  return Allocate(out, bytes, TheDevice().pools.Find(pool), "cudaMallocFromPoolAsync", stream);
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  RUNTIME_DEVICE_CALL("cudaFreeAsync", pointer, handle);
  if (!pointer) return cudaSuccess;
  RUNTIME_STREAM(stream, handle);
  return Return(FreeInOrder(TheDevice(), AddressOf(pointer), *stream, "cudaFreeAsync"));
}
