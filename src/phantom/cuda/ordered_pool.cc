// Stream-ordered memory.
#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

namespace {

CUresult Allocate(CUdeviceptr* out, std::size_t bytes, std::shared_ptr<Pool> pool, const char* name, CUstream handle) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!pool) return CUDA_ERROR_INVALID_HANDLE;
  DRIVER_STREAM(stream, handle);
  Address address = 0;
  Code code = AllocateFromPool(TheDevice(), *pool, Size(bytes), *stream, name, address);
  if (code == Code::kSuccess) *out = address;
  return Answer(code);
}

}  // namespace

CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
  DRIVER_CONTEXT_CALL("cuMemAllocAsync", bytes, stream);
  return Allocate(out, bytes, TheDevice().pools.Current(CurrentGpu()), "cuMemAllocAsync", stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  DRIVER_CONTEXT_CALL("cuMemAllocFromPoolAsync", bytes, pool, stream);
  return Allocate(out, bytes, TheDevice().pools.Find(pool), "cuMemAllocFromPoolAsync", stream);
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
  DRIVER_CONTEXT_CALL("cuMemFreeAsync", pointer, handle);
  DRIVER_STREAM(stream, handle);
  return Answer(FreeInOrder(TheDevice(), pointer, *stream, "cuMemFreeAsync"));
}
