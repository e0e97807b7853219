// Memory on the device and host memory that it knows.
#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

namespace {

CUresult AllocateHost(void** out, std::size_t bytes, unsigned flags, RangeKind kind) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  return Answer(TheDevice().host_memory.Allocate(Size(bytes), kind, flags, *out));
}

}  // namespace

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  DRIVER_CONTEXT_CALL("cuMemGetInfo");
  if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
  const Ledger& ledger = TheDevice().gpu().ledger;
  *total = static_cast<std::size_t>(ledger.capacity());
  *free = static_cast<std::size_t>(ledger.capacity() - ledger.all());
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* out, size_t bytes) {
  DRIVER_CONTEXT_CALL("cuMemAlloc", bytes);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  void* pointer = nullptr;
  if (Code code = AllocateDevice(Size(bytes), &pointer); code != Code::kSuccess) return Answer(code);
  *out = AddressOf(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocPitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned element) {
  DRIVER_CONTEXT_CALL("cuMemAllocPitch", width, height, element);
  if (!out || !pitch || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  *pitch = (width + 511) / 512 * 512;
  std::optional<std::int64_t> bytes = ebbtide::CheckedMul(Size(*pitch), Size(height));
  if (!bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  void* pointer = nullptr;
  if (Code code = AllocateDevice(*bytes, &pointer); code != Code::kSuccess) return Answer(code);
  *out = AddressOf(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr pointer) {
  DRIVER_CONTEXT_CALL("cuMemFree", pointer);
  if (pointer == 0) return CUDA_SUCCESS;
  Device& device = TheDevice();
  std::optional<Range> range = device.space.Find(pointer);
  if (range && range->kind == RangeKind::kManaged) {
    SynchronizeDevice();
    return Answer(device.host_memory.Free(reinterpret_cast<void*>(pointer), RangeKind::kManaged));
  }
  return Answer(FreeDevice(reinterpret_cast<void*>(pointer)));
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  DRIVER_CONTEXT_CALL("cuMemGetAddressRange", pointer);
  std::optional<Range> range = TheDevice().space.Find(pointer);
  if (!range) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = range->begin;
  if (bytes) *bytes = static_cast<std::size_t>(range->size);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocHost(void** out, size_t bytes) {
  DRIVER_CONTEXT_CALL("cuMemAllocHost", bytes);
  return AllocateHost(out, bytes, 0, RangeKind::kPinned);
}

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  DRIVER_CONTEXT_CALL("cuMemHostAlloc", bytes, flags);
  return AllocateHost(out, bytes, flags, RangeKind::kPinned);
}

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned flags) {
  DRIVER_CONTEXT_CALL("cuMemAllocManaged", bytes, flags);
  void* pointer = nullptr;
  CUresult result = AllocateHost(&pointer, bytes, flags, RangeKind::kManaged);
  if (result == CUDA_SUCCESS) *out = AddressOf(pointer);
  return result;
}

CUresult cuMemFreeHost(void* pointer) {
  DRIVER_CONTEXT_CALL("cuMemFreeHost", pointer);
  SynchronizeDevice();
  return Answer(TheDevice().host_memory.Free(pointer, RangeKind::kPinned));
}

CUresult cuMemHostRegister(void* pointer, size_t bytes, unsigned flags) {
  DRIVER_CONTEXT_CALL("cuMemHostRegister", pointer, bytes, flags);
  return Answer(TheDevice().host_memory.Register(pointer, Size(bytes), flags));
}

CUresult cuMemHostUnregister(void* pointer) {
  DRIVER_CONTEXT_CALL("cuMemHostUnregister", pointer);
  SynchronizeDevice();
  return Answer(TheDevice().host_memory.Unregister(pointer));
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* out, void* pointer, unsigned flags) {
  DRIVER_CONTEXT_CALL("cuMemHostGetDevicePointer", pointer, flags);
  std::optional<Range> range = TheDevice().space.Find(AddressOf(pointer));
  if (!out || !range || range->on_device()) return CUDA_ERROR_INVALID_VALUE;
  *out = AddressOf(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned* flags, void* pointer) {
  DRIVER_CONTEXT_CALL("cuMemHostGetFlags", pointer);
  std::optional<Range> range = TheDevice().space.Find(AddressOf(pointer));
  if (!flags || !range || range->on_device()) return CUDA_ERROR_INVALID_VALUE;
  *flags = range->flags;
  return CUDA_SUCCESS;
}
