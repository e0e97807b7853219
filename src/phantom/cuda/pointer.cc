// What a pointer is.
#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

namespace {

template <class T>
void Put(void* data, T value) {
  *static_cast<T*>(data) = value;
}

CUresult Get(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  std::optional<Range> range = TheDevice().space.Find(pointer);
  if (!range) return CUDA_ERROR_INVALID_VALUE;
  bool on_device = range->on_device();
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      Put(data, reinterpret_cast<CUcontext>(TheDevice().contexts.primary(range->gpu())));
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: Put(data, on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST); break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: Put(data, pointer); break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (on_device) return CUDA_ERROR_INVALID_VALUE;
      Put(data, reinterpret_cast<void*>(pointer));
      break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: Put(data, 0u); break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: Put(data, static_cast<unsigned long long>(range->id)); break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: Put(data, static_cast<unsigned>(range->kind == RangeKind::kManaged)); break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: Put(data, range->gpu()); break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: Put(data, 0); break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: Put(data, static_cast<CUdeviceptr>(range->begin)); break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: Put(data, static_cast<std::size_t>(range->size)); break;
    case CU_POINTER_ATTRIBUTE_MAPPED: Put(data, 1); break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: {
      bool shareable = range->physical && range->physical->share() == Physical::Share::kShareable;
      Put(data, static_cast<unsigned long long>(shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0));
      break;
    }
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: Put(data, 0); break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: Put(data, 3ull); break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: Put(data, reinterpret_cast<CUmemoryPool>(range->owner)); break;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: Put(data, static_cast<std::size_t>(range->size)); break;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: Put(data, static_cast<CUdeviceptr>(range->begin)); break;
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  DRIVER_CALL("cuPointerGetAttribute", attribute, pointer);
  return Get(data, attribute, pointer);
}

// What is not known of a pointer is left null, and that is no error.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr pointer) {
  DRIVER_CALL("cuPointerGetAttributes", count, pointer);
  if (!attributes || !data) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (Get(data[i], attributes[i], pointer) == CUDA_SUCCESS) continue;
    bool wide = attributes[i] == CU_POINTER_ATTRIBUTE_CONTEXT || attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
                attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER || attributes[i] == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
                attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
                attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE ||
                attributes[i] == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
      Put(data[i], -2);
    else if (wide)
      Put(data[i], std::uint64_t{0});
    else
      Put(data[i], 0);
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  DRIVER_CALL("cuPointerSetAttribute", attribute, pointer);
  if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !TheDevice().space.Find(pointer))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}
