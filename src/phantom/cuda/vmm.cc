// Virtual memory management. The one kind of memory is pinned memory of a device, private or shareable by descriptor.
#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

namespace {

bool IsOurs(const CUmemAllocationProp* properties) {
  return properties && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE && IsGpu(properties->location.id);
}

}  // namespace

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags option) {
  DRIVER_CALL("cuMemGetAllocationGranularity", option);
  if (!granularity || !IsOurs(properties)) return CUDA_ERROR_INVALID_VALUE;
  *granularity = static_cast<std::size_t>(Vmm::kGranularity);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  DRIVER_CALL("cuMemAddressReserve", bytes, alignment, hint, flags);
  if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Address address = 0;
  Code code = TheDevice().vmm.Reserve(Size(bytes), Size(alignment), hint, address);
  *out = address;
  return Answer(code);
}

CUresult cuMemAddressFree(CUdeviceptr begin, size_t bytes) {
  DRIVER_CALL("cuMemAddressFree", begin, bytes);
  return Answer(TheDevice().vmm.Unreserve(begin, Size(bytes)));
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  DRIVER_CALL("cuMemCreate", bytes, flags);
  if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!IsOurs(properties)) {
    NotModelled("cuMemCreate of memory that is not a device's");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  Physical::Share share = Physical::Share::kPrivate;
  if (properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    share = Physical::Share::kShareable;
  } else if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    return CUDA_ERROR_NOT_SUPPORTED;  // as on a machine without a fabric manager: callers fall back
  }
  Device& device = TheDevice();
  Vmm::Handle handle = 0;
  Ledger& ledger = device.gpu(properties->location.id).ledger;
  Code code = device.vmm.Create(ledger, Size(bytes), share, handle);
  if (code == Code::kOutOfMemory) {  // the driver then takes back what its pools do not use
    device.pools.ReleaseUnused();
    code = device.vmm.Create(ledger, Size(bytes), share, handle);
  }
  if (code == Code::kSuccess) device.statistics.allocations.Add(Size(bytes));
  if (code == Code::kOutOfMemory) device.statistics.out_of_memory.Add(Size(bytes));
  if (code != Code::kSuccess) return Answer(code);
  *out = handle;
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  DRIVER_CALL("cuMemRelease", handle);
  return Answer(TheDevice().vmm.Release(handle));
}

CUresult cuMemMap(CUdeviceptr begin, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  DRIVER_CALL("cuMemMap", begin, bytes, offset, handle, flags);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return Answer(TheDevice().vmm.Map(begin, Size(bytes), Size(offset), handle));
}

CUresult cuMemUnmap(CUdeviceptr begin, size_t bytes) {
  DRIVER_CALL("cuMemUnmap", begin, bytes);
  return Answer(TheDevice().vmm.Unmap(begin, Size(bytes)));
}

CUresult cuMemSetAccess(CUdeviceptr begin, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  DRIVER_CALL("cuMemSetAccess", begin, bytes, count);
  if (!access) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !IsGpu(access[i].location.id))
      return CUDA_ERROR_INVALID_DEVICE;
    Code code = TheDevice().vmm.SetAccess(begin, Size(bytes), access[i].flags);
    if (code != Code::kSuccess) return Answer(code);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr pointer) {
  DRIVER_CALL("cuMemGetAccess", pointer);
  if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE || !IsGpu(location->id))
    return CUDA_ERROR_INVALID_VALUE;
  unsigned access = 0;
  Code code = TheDevice().vmm.GetAccess(pointer, access);
  *flags = access;
  return Answer(code);
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags) {
  DRIVER_CALL("cuMemExportToShareableHandle", handle, type, flags);
  if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  return Answer(TheDevice().vmm.Export(handle, *static_cast<int*>(out)));
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* descriptor,
                                        CUmemAllocationHandleType type) {
  DRIVER_CALL("cuMemImportFromShareableHandle", descriptor, type);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  Vmm::Handle handle = 0;
  Code code = TheDevice().vmm.Import(static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)), handle);
  *out = handle;
  return Answer(code);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out, CUmemGenericAllocationHandle handle) {
  DRIVER_CALL("cuMemGetAllocationPropertiesFromHandle", handle);
  Physical::Share share = Physical::Share::kPrivate;
  int gpu = 0;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (Code code = TheDevice().vmm.Describe(handle, share, gpu); code != Code::kSuccess) return Answer(code);
  *out = {};
  out->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  out->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  out->location.id = gpu;
  if (share == Physical::Share::kShareable) out->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* pointer) {
  DRIVER_CALL("cuMemRetainAllocationHandle", pointer);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  Vmm::Handle handle = 0;
  Code code = TheDevice().vmm.Retain(AddressOf(pointer), handle);
  *out = handle;
  return Answer(code);
}
