// Pools of stream-ordered memory.
#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;
using ebbtide::Bytes;

namespace {

cudaMemPool_t HandleOf(const std::shared_ptr<Pool>& pool) { return reinterpret_cast<cudaMemPool_t>(pool.get()); }

bool IsDevice(const cudaMemLocation& location) {
  return location.type == cudaMemLocationTypeDevice && IsGpu(location.id);
}

}  // namespace

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* out, int device) {
  RUNTIME_DEVICE_CALL("cudaDeviceGetDefaultMemPool", device);
  if (!out) return Return(Code::kInvalidValue);
  if (!IsGpu(device)) return Return(Code::kInvalidDevice);
  *out = reinterpret_cast<cudaMemPool_t>(&TheDevice().pools.Default(device));
  return cudaSuccess;
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* out, int device) {
  RUNTIME_DEVICE_CALL("cudaDeviceGetMemPool", device);
  if (!out) return Return(Code::kInvalidValue);
  if (!IsGpu(device)) return Return(Code::kInvalidDevice);
  *out = HandleOf(TheDevice().pools.Current(device));
  return cudaSuccess;
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  RUNTIME_DEVICE_CALL("cudaDeviceSetMemPool", device, pool);
  std::shared_ptr<Pool> found = TheDevice().pools.Find(pool);
  if (!IsGpu(device)) return Return(Code::kInvalidDevice);
  if (!found) return Return(Code::kInvalidValue);
  TheDevice().pools.SetCurrent(device, std::move(found));
  return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* out, const cudaMemPoolProps* properties) {
  RUNTIME_DEVICE_CALL("cudaMemPoolCreate");
  if (!out || !properties || properties->allocType != cudaMemAllocationTypePinned) return Return(Code::kInvalidValue);
  if (properties->handleTypes != cudaMemHandleTypeNone || !IsDevice(properties->location)) {
    NotModelled("cudaMemPoolCreate of a pool that is shareable or not a device's");
    return Return(Code::kNotSupported);
  }
  *out = HandleOf(TheDevice().pools.Create(properties->location.id));
  return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  RUNTIME_DEVICE_CALL("cudaMemPoolDestroy", pool);
  return Return(TheDevice().pools.Destroy(pool) ? Code::kSuccess : Code::kInvalidValue);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  RUNTIME_DEVICE_CALL("cudaMemPoolTrimTo", pool, keep);
  std::shared_ptr<Pool> found = TheDevice().pools.Find(pool);
  if (!found) return Return(Code::kInvalidValue);
  found->Trim(keep > static_cast<std::size_t>(ebbtide::kTooLarge) ? ebbtide::kTooLarge : static_cast<Bytes>(keep));
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  RUNTIME_DEVICE_CALL("cudaMemPoolSetAttribute", pool, attribute);
  std::shared_ptr<Pool> found = TheDevice().pools.Find(pool);
  if (!found || !value) return Return(Code::kInvalidValue);
  return Return(found->SetAttribute(attribute, value));
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  RUNTIME_DEVICE_CALL("cudaMemPoolGetAttribute", pool, attribute);
  std::shared_ptr<Pool> found = TheDevice().pools.Find(pool);
  if (!found || !value) return Return(Code::kInvalidValue);
  return Return(found->GetAttribute(attribute, value));
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access, size_t count) {
  RUNTIME_DEVICE_CALL("cudaMemPoolSetAccess", pool, count);
  if (!TheDevice().pools.Find(pool) || !access) return Return(Code::kInvalidValue);
  for (std::size_t i = 0; i < count; ++i)
    if (!IsDevice(access[i].location)) return Return(Code::kInvalidDevice);
  return cudaSuccess;
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation* location) {
  RUNTIME_DEVICE_CALL("cudaMemPoolGetAccess", pool);
  if (!flags || !location || !TheDevice().pools.Find(pool)) return Return(Code::kInvalidValue);
  *flags = IsDevice(*location) ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone;
  return cudaSuccess;
}

// Graphs hold no memory, since there are none.
cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  RUNTIME_DEVICE_CALL("cudaDeviceGetGraphMemAttribute", device, attribute);
  if (!IsGpu(device) || !value) return Return(Code::kInvalidValue);
  *static_cast<std::uint64_t*>(value) = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  RUNTIME_DEVICE_CALL("cudaDeviceSetGraphMemAttribute", device, attribute);
  return Return(IsGpu(device) && value ? Code::kSuccess : Code::kInvalidValue);
}

cudaError_t cudaDeviceGraphMemTrim(int device) {
  RUNTIME_DEVICE_CALL("cudaDeviceGraphMemTrim", device);
  return Return(IsGpu(device) ? Code::kSuccess : Code::kInvalidDevice);
}
