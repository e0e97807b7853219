// The driver and its devices.
#include <cstdio>
#include <cstring>

#include "phantom/core/attributes.h"
#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

CUresult cuInit(unsigned flags) {
  DRIVER_ANY_CALL("cuInit", flags);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  TheDevice().contexts.Initialize();
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  DRIVER_ANY_CALL("cuDriverGetVersion");
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  DRIVER_CALL("cuDeviceGet", ordinal);
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (!IsGpu(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  DRIVER_CALL("cuDeviceGetCount");
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = TheDevice().gpu_count();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  DRIVER_CALL("cuDeviceGetName", device);
  if (!name || length < 1) return CUDA_ERROR_INVALID_VALUE;
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<std::size_t>(length), "%s", Profile().product.c_str());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  DRIVER_CALL("cuDeviceGetUuid", device);
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  DeviceUuid(Profile(), NumberOf(device), uuid->bytes);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  DRIVER_CALL("cuDeviceTotalMem", device);
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = static_cast<std::size_t>(Profile().memory);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  DRIVER_CALL("cuDeviceGetAttribute", attribute, device);
  std::optional<int> found = DeviceAttribute(Profile(), attribute);
  if (!value || !found) return CUDA_ERROR_INVALID_VALUE;
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? NumberOf(device) + 1 : *found;
  return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  DRIVER_CALL("cuDeviceComputeCapability", device);
  if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  *major = static_cast<int>(Profile().compute_major);
  *minor = static_cast<int>(Profile().compute_minor);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* out, int length, CUdevice device) {
  DRIVER_CALL("cuDeviceGetPCIBusId", device);
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::string text = PciBusId(NumberOf(device));
  if (!out || length <= static_cast<int>(text.size())) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(out, static_cast<std::size_t>(length), "%s", text.c_str());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  DRIVER_CALL("cuDeviceGetByPCIBusId", id);
  if (!device || !id) return CUDA_ERROR_INVALID_VALUE;
  for (int index = 0; index < TheDevice().gpu_count(); ++index) {
    if (PciBusId(NumberOf(index)) != id) continue;
    *device = index;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  DRIVER_CALL("cuDeviceCanAccessPeer", device, peer);
  if (!can) return CUDA_ERROR_INVALID_VALUE;
  if (!IsGpu(device) || !IsGpu(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = device != peer;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer) {
  DRIVER_CALL("cuDeviceGetP2PAttribute", attribute, device, peer);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (!IsGpu(device) || !IsGpu(peer) || device == peer) return CUDA_ERROR_INVALID_DEVICE;
  *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
  return CUDA_SUCCESS;
}
