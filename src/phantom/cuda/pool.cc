// Pools of stream-ordered memory.
#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

namespace {

CUmemoryPool HandleOf(const std::shared_ptr<Pool>& pool) { return reinterpret_cast<CUmemoryPool>(pool.get()); }

bool IsDevice(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE && IsGpu(location.id);
}

}  // namespace

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  DRIVER_CALL("cuDeviceGetDefaultMemPool", device);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  *out = reinterpret_cast<CUmemoryPool>(&TheDevice().pools.Default(device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) {
  DRIVER_CALL("cuDeviceGetMemPool", device);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  *out = HandleOf(TheDevice().pools.Current(device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  DRIVER_CALL("cuDeviceSetMemPool", device, pool);
  std::shared_ptr<Pool> found = TheDevice().pools.Find(pool);
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  TheDevice().pools.SetCurrent(device, std::move(found));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  DRIVER_CALL("cuMemPoolCreate");
  if (!out || !properties || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE || !IsDevice(properties->location)) {
    NotModelled("cuMemPoolCreate of a pool that is shareable or not a device's");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *out = HandleOf(TheDevice().pools.Create(properties->location.id));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  DRIVER_CALL("cuMemPoolDestroy", pool);
  return TheDevice().pools.Destroy(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  DRIVER_CALL("cuMemPoolTrimTo", pool, keep);
  std::shared_ptr<Pool> found = TheDevice().pools.Find(pool);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  found->Trim(Size(keep));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  DRIVER_CALL("cuMemPoolSetAttribute", pool, attribute);
  std::shared_ptr<Pool> found = TheDevice().pools.Find(pool);
  if (!found || !value) return CUDA_ERROR_INVALID_VALUE;
  return Answer(found->SetAttribute(attribute, value));
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  DRIVER_CALL("cuMemPoolGetAttribute", pool, attribute);
  std::shared_ptr<Pool> found = TheDevice().pools.Find(pool);
  if (!found || !value) return CUDA_ERROR_INVALID_VALUE;
  return Answer(found->GetAttribute(attribute, value));
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* access, size_t count) {
  DRIVER_CALL("cuMemPoolSetAccess", pool, count);
  if (!TheDevice().pools.Find(pool) || !access) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i)
    if (!IsDevice(access[i].location) || access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_INVALID_DEVICE;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  DRIVER_CALL("cuMemPoolGetAccess", pool);
  if (!flags || !location || !TheDevice().pools.Find(pool)) return CUDA_ERROR_INVALID_VALUE;
  *flags = IsDevice(*location) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}
