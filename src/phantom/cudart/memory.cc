// Memory: allocations on the device and of host memory that it knows, and what a pointer is.
#include "phantom/core/capture.h"
#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;
using ebbtide::Bytes;

namespace {

constexpr std::size_t kPitchAlignment = 512;

// A request of size zero succeeds with no memory.
cudaError_t AllocateOrNothing(void** out, std::size_t bytes) {
  if (!out) return Return(Code::kInvalidValue);
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > static_cast<std::size_t>(ebbtide::kTooLarge)) return Return(Code::kOutOfMemory);
  return Return(AllocateDevice(static_cast<Bytes>(bytes), out));
}

cudaError_t AllocateHost(void** out, std::size_t bytes, unsigned flags, RangeKind kind) {
  if (!out) return Return(Code::kInvalidValue);
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > static_cast<std::size_t>(ebbtide::kTooLarge)) return Return(Code::kOutOfMemory);
  return Return(TheDevice().host_memory.Allocate(static_cast<Bytes>(bytes), kind, flags, *out));
}

}  // namespace

cudaError_t cudaMalloc(void** out, size_t bytes) {
  RUNTIME_DEVICE_CALL("cudaMalloc", bytes);
  if (Code code = RefuseIfUnsafe(); code != Code::kSuccess) return Return(code);
  return AllocateOrNothing(out, bytes);
}

cudaError_t cudaMallocPitch(void** out, size_t* pitch, size_t width, size_t height) {
  RUNTIME_DEVICE_CALL("cudaMallocPitch", width, height);
  if (!pitch || width > static_cast<std::size_t>(ebbtide::kTooLarge)) return Return(Code::kInvalidValue);
  *pitch = (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  std::optional<std::int64_t> bytes =
      ebbtide::CheckedMul(static_cast<std::int64_t>(*pitch), static_cast<std::int64_t>(height));
  if (!bytes || *bytes < 0) return Return(Code::kOutOfMemory);
  return AllocateOrNothing(out, static_cast<std::size_t>(*bytes));
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* out, cudaExtent extent) {
  RUNTIME_DEVICE_CALL("cudaMalloc3D", extent.width, extent.height, extent.depth);
  if (!out) return Return(Code::kInvalidValue);
  std::optional<std::int64_t> rows =
      ebbtide::CheckedMul(static_cast<std::int64_t>(extent.height), static_cast<std::int64_t>(extent.depth));
  if (!rows) return Return(Code::kOutOfMemory);
  out->xsize = extent.width;
  out->ysize = extent.height;
  return cudaMallocPitch(&out->ptr, &out->pitch, extent.width, static_cast<std::size_t>(*rows));
}

cudaError_t cudaFree(void* pointer) {
  RUNTIME_DEVICE_CALL("cudaFree", pointer);
  if (!pointer) return cudaSuccess;
  Device& device = TheDevice();
  std::optional<Range> range = device.space.Find(AddressOf(pointer));
  if (range && range->kind == RangeKind::kManaged) {
    SynchronizeDevice();
    return Return(device.host_memory.Free(pointer, RangeKind::kManaged));
  }
  return Return(FreeDevice(pointer));
}

cudaError_t cudaMallocManaged(void** out, size_t bytes, unsigned flags) {
  RUNTIME_DEVICE_CALL("cudaMallocManaged", bytes, flags);
  return AllocateHost(out, bytes, flags, RangeKind::kManaged);
}

cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned flags) {
  RUNTIME_DEVICE_CALL("cudaHostAlloc", bytes, flags);
  return AllocateHost(out, bytes, flags, RangeKind::kPinned);
}

cudaError_t cudaMallocHost(void** out, size_t bytes) {
  RUNTIME_DEVICE_CALL("cudaMallocHost", bytes);
  return AllocateHost(out, bytes, cudaHostAllocDefault, RangeKind::kPinned);
}

cudaError_t cudaFreeHost(void* pointer) {
  RUNTIME_DEVICE_CALL("cudaFreeHost", pointer);
  if (!pointer) return cudaSuccess;
  SynchronizeDevice();
  return Return(TheDevice().host_memory.Free(pointer, RangeKind::kPinned));
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  RUNTIME_DEVICE_CALL("cudaHostRegister", pointer, bytes, flags);
  if (bytes > static_cast<std::size_t>(ebbtide::kTooLarge)) return Return(Code::kInvalidValue);
  return Return(TheDevice().host_memory.Register(pointer, static_cast<Bytes>(bytes), flags));
}

cudaError_t cudaHostUnregister(void* pointer) {
  RUNTIME_DEVICE_CALL("cudaHostUnregister", pointer);
  SynchronizeDevice();
  return Return(TheDevice().host_memory.Unregister(pointer));
}

cudaError_t cudaHostGetDevicePointer(void** out, void* pointer, unsigned) {
  RUNTIME_DEVICE_CALL("cudaHostGetDevicePointer", pointer);
  std::optional<Range> range = TheDevice().space.Find(AddressOf(pointer));
  if (!out || !range || range->on_device()) return Return(Code::kInvalidValue);
  *out = pointer;
  return cudaSuccess;
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
  RUNTIME_DEVICE_CALL("cudaHostGetFlags", pointer);
  std::optional<Range> range = TheDevice().space.Find(AddressOf(pointer));
  if (!flags || !range || range->on_device()) return Return(Code::kInvalidValue);
  *flags = range->flags;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  RUNTIME_DEVICE_CALL("cudaMemGetInfo");
  if (!free || !total) return Return(Code::kInvalidValue);
  const Ledger& ledger = TheDevice().gpu().ledger;
  *total = static_cast<std::size_t>(ledger.capacity());
  *free = static_cast<std::size_t>(ledger.capacity() - ledger.all());
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* pointer) {
  RUNTIME_DEVICE_CALL("cudaPointerGetAttributes", pointer);
  if (!out) return Return(Code::kInvalidValue);
  *out = {};
  std::optional<Range> range = TheDevice().space.Find(AddressOf(pointer));
  auto address = const_cast<void*>(pointer);
  if (!range) {
    out->type = cudaMemoryTypeUnregistered;
    out->device = cudaInvalidDeviceId;
    out->hostPointer = address;
    return cudaSuccess;
  }
  out->device = range->gpu();
  out->devicePointer = address;
  if (range->on_device()) {
    out->type = cudaMemoryTypeDevice;
  } else {
    out->type = range->kind == RangeKind::kManaged ? cudaMemoryTypeManaged : cudaMemoryTypeHost;
    out->hostPointer = address;
  }
  return cudaSuccess;
}
