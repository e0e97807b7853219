// Devices: how many, which, what they are.
#include <cstdio>
#include <cstring>

#include "phantom/core/attributes.h"
#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;

namespace {

int Attribute(int attribute) { return DeviceAttribute(Profile(), attribute).value_or(0); }

void FillProperties(cudaDeviceProp& out, int device) {
  const ebbtide::DeviceProfile& profile = Profile();
  std::memset(&out, 0, sizeof(out));
  std::snprintf(out.name, sizeof(out.name), "%s", profile.product.c_str());
  DeviceUuid(profile, NumberOf(device), out.uuid.bytes);
  out.totalGlobalMem = static_cast<std::size_t>(profile.memory);
  out.sharedMemPerBlock = Attribute(cudaDevAttrMaxSharedMemoryPerBlock);
  out.regsPerBlock = Attribute(cudaDevAttrMaxRegistersPerBlock);
  out.warpSize = kWarp;
  out.memPitch = Attribute(cudaDevAttrMaxPitch);
  out.maxThreadsPerBlock = kThreadsPerBlock;
  for (int i = 0; i < 3; ++i) {
    out.maxThreadsDim[i] = Attribute(cudaDevAttrMaxBlockDimX + i);
    out.maxGridSize[i] = Attribute(cudaDevAttrMaxGridDimX + i);
  }
  out.totalConstMem = Attribute(cudaDevAttrTotalConstantMemory);
  out.major = Attribute(cudaDevAttrComputeCapabilityMajor);
  out.minor = Attribute(cudaDevAttrComputeCapabilityMinor);
  out.textureAlignment = Attribute(cudaDevAttrTextureAlignment);
  out.texturePitchAlignment = Attribute(cudaDevAttrTexturePitchAlignment);
  out.multiProcessorCount = Attribute(cudaDevAttrMultiProcessorCount);
  out.canMapHostMemory = 1;
  out.maxTexture1D = Attribute(cudaDevAttrMaxTexture1DWidth);
  out.maxTexture2D[0] = Attribute(cudaDevAttrMaxTexture2DWidth);
  out.maxTexture2D[1] = Attribute(cudaDevAttrMaxTexture2DHeight);
  out.surfaceAlignment = Attribute(cudaDevAttrSurfaceAlignment);
  out.concurrentKernels = 1;
  out.ECCEnabled = Attribute(cudaDevAttrEccEnabled);
  out.pciBusID = NumberOf(device) + 1;
  out.asyncEngineCount = Attribute(cudaDevAttrAsyncEngineCount);
  out.unifiedAddressing = 1;
  out.memoryBusWidth = Attribute(cudaDevAttrGlobalMemoryBusWidth);
  out.l2CacheSize = Attribute(cudaDevAttrL2CacheSize);
  out.persistingL2CacheMaxSize = Attribute(cudaDevAttrMaxPersistingL2CacheSize);
  out.maxThreadsPerMultiProcessor = Attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
  out.streamPrioritiesSupported = 1;
  out.globalL1CacheSupported = 1;
  out.localL1CacheSupported = 1;
  out.sharedMemPerMultiprocessor = Attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  out.regsPerMultiprocessor = Attribute(cudaDevAttrMaxRegistersPerMultiprocessor);
  out.managedMemory = 1;
  out.computePreemptionSupported = 1;
  out.canUseHostPointerForRegisteredMem = 1;
  out.cooperativeLaunch = 1;
  out.sharedMemPerBlockOptin = Attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  out.maxBlocksPerMultiProcessor = Attribute(cudaDevAttrMaxBlocksPerMultiprocessor);
  out.accessPolicyMaxWindowSize = Attribute(cudaDevAttrMaxAccessPolicyWindowSize);
  out.reservedSharedMemPerBlock = Attribute(cudaDevAttrReservedSharedMemoryPerBlock);
  out.hostRegisterSupported = 1;
  out.memoryPoolsSupported = 1;
  out.clusterLaunch = Attribute(cudaDevAttrClusterLaunch);
#if EBBTIDE_CUDA_GENERATION == 12
  out.clockRate = Attribute(cudaDevAttrClockRate);
  out.memoryClockRate = Attribute(cudaDevAttrMemoryClockRate);
  out.deviceOverlap = 1;
  out.singleToDoublePrecisionPerfRatio = Attribute(cudaDevAttrSingleToDoublePrecisionPerfRatio);
#endif
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  if (count) *count = 0;  // also where the call fails, since programs look at it first
  RUNTIME_CALL("cudaGetDeviceCount");
  if (!count) return Return(Code::kInvalidValue);
  *count = TheDevice().gpu_count();
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  RUNTIME_CALL("cudaGetDevice");
  if (!device) return Return(Code::kInvalidValue);
  *device = CurrentGpu();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  RUNTIME_CALL("cudaSetDevice", device);
  if (!IsGpu(device)) return Return(Code::kInvalidDevice);
  return Return(TheDevice().contexts.UseGpu(device));
}

cudaError_t cudaInitDevice(int device, unsigned flags, unsigned) {
  RUNTIME_CALL("cudaInitDevice", device, flags);
  if (!IsGpu(device)) return Return(Code::kInvalidDevice);
  return Return(TheDevice().contexts.MakePrimary(device));
}

cudaError_t cudaSetValidDevices(int* devices, int length) {
  RUNTIME_CALL("cudaSetValidDevices", length);
  for (int i = 0; i < length; ++i)
    if (!devices || !IsGpu(devices[i])) return Return(Code::kInvalidDevice);
  return cudaSuccess;
}

cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) {
  RUNTIME_CALL("cudaChooseDevice");
  if (!device) return Return(Code::kInvalidValue);
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  RUNTIME_CALL("cudaGetDeviceProperties", device);
  if (!IsGpu(device)) return Return(Code::kInvalidDevice);
  if (!out) return Return(Code::kInvalidValue);
  FillProperties(*out, device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  RUNTIME_CALL("cudaDeviceGetAttribute", attribute, device);
  if (!IsGpu(device)) return Return(Code::kInvalidDevice);
  std::optional<int> found = DeviceAttribute(Profile(), attribute);
  if (!value || !found) return Return(Code::kInvalidValue);
  *value = attribute == cudaDevAttrPciBusId ? NumberOf(device) + 1 : *found;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  RUNTIME_CALL("cudaDriverGetVersion");
  if (!version) return Return(Code::kInvalidValue);
  *version = kDriverVersion;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  RUNTIME_CALL("cudaRuntimeGetVersion");
  if (!version) return Return(Code::kInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  RUNTIME_DEVICE_CALL("cudaDeviceSynchronize");
  SynchronizeDevice();
  return Return(LostDevice());
}

cudaError_t cudaDeviceReset() {
  RUNTIME_CALL("cudaDeviceReset");
  ResetDevice(CurrentGpu());
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  RUNTIME_CALL("cudaDeviceCanAccessPeer", device, peer);
  if (!can) return Return(Code::kInvalidValue);
  if (!IsGpu(device) || !IsGpu(peer)) return Return(Code::kInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  RUNTIME_CALL("cudaDeviceEnablePeerAccess", peer);
  return Return(IsGpu(peer) && peer != CurrentGpu() ? Code::kSuccess : Code::kInvalidDevice);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  RUNTIME_CALL("cudaDeviceDisablePeerAccess", peer);
  return Return(IsGpu(peer) && peer != CurrentGpu() ? Code::kSuccess : Code::kInvalidDevice);
}

cudaError_t cudaDeviceGetPCIBusId(char* out, int length, int device) {
  RUNTIME_CALL("cudaDeviceGetPCIBusId", device);
  if (!IsGpu(device)) return Return(Code::kInvalidDevice);
  const std::string text = PciBusId(NumberOf(device));
  if (!out || length <= static_cast<int>(text.size())) return Return(Code::kInvalidValue);
  std::snprintf(out, static_cast<std::size_t>(length), "%s", text.c_str());
  return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* id) {
  RUNTIME_CALL("cudaDeviceGetByPCIBusId", id);
  if (!device || !id) return Return(Code::kInvalidValue);
  for (int index = 0; index < TheDevice().gpu_count(); ++index) {
    if (PciBusId(NumberOf(index)) != id) continue;
    *device = index;
    return cudaSuccess;
  }
  return Return(Code::kInvalidDevice);
}

cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  RUNTIME_CALL("cudaGetDeviceFlags");
  if (!flags) return Return(Code::kInvalidValue);
  TheDevice().contexts.PrimaryIsActive(CurrentGpu(), *flags);
  return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  RUNTIME_CALL("cudaSetDeviceFlags", flags);
  return Return(TheDevice().contexts.SetPrimaryFlags(CurrentGpu(), flags));
}

cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  RUNTIME_CALL("cudaDeviceGetCacheConfig");
  if (!config) return Return(Code::kInvalidValue);
  *config = cudaFuncCachePreferNone;
  return cudaSuccess;
}

cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config) {
  RUNTIME_CALL("cudaDeviceSetCacheConfig", config);
  return cudaSuccess;
}

cudaError_t cudaProfilerStart() {
  RUNTIME_CALL("cudaProfilerStart");
  return cudaSuccess;
}

cudaError_t cudaProfilerStop() {
  RUNTIME_CALL("cudaProfilerStop");
  return cudaSuccess;
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int device, int peer) {
  RUNTIME_CALL("cudaDeviceGetP2PAttribute", attribute, device, peer);
  if (!value) return Return(Code::kInvalidValue);
  if (!IsGpu(device) || !IsGpu(peer) || device == peer) return Return(Code::kInvalidDevice);
  *value = attribute == cudaDevP2PAttrAccessSupported;
  return cudaSuccess;
}
