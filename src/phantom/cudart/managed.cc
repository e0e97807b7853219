// Advice about managed memory, and copies between devices, of which there is one.
#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;
using ebbtide::Bytes;

namespace {

cudaError_t Advise(const void* pointer) {
  std::optional<Range> range = TheDevice().space.Find(AddressOf(pointer));
  return Return(range && range->kind == RangeKind::kManaged ? Code::kSuccess : Code::kInvalidValue);
}

cudaError_t CopyPeer(const char* name, void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                     cudaStream_t handle, bool blocking) {
  if (!IsGpu(to_device) || !IsGpu(from_device)) return Return(Code::kInvalidDevice);
  if (bytes > static_cast<std::size_t>(ebbtide::kTooLarge)) return Return(Code::kInvalidValue);
  RUNTIME_STREAM(stream, handle);
  return Return(Copy(TheDevice(), *stream,
                     {.name = name,
                      .to = AddressOf(to),
                      .from = AddressOf(from),
                      .width = static_cast<Bytes>(bytes),
                      .blocking = blocking}));
}

}  // namespace

#if EBBTIDE_CUDA_GENERATION >= 13
cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation) {
#else
cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice, int) {
#endif
  RUNTIME_DEVICE_CALL("cudaMemAdvise", pointer, bytes, advice);
  return Advise(pointer);
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  RUNTIME_DEVICE_CALL("cudaMemcpyPeer", to, to_device, from, from_device, bytes);
  return CopyPeer("cudaMemcpyPeer", to, to_device, from, from_device, bytes, nullptr, true);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaMemcpyPeerAsync", to, to_device, from, from_device, bytes, stream);
  return CopyPeer("cudaMemcpyPeerAsync", to, to_device, from, from_device, bytes, stream, false);
}
