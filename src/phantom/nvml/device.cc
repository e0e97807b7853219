// What monitoring programs ask of the device: memory, processes, place. Temperatures and power there are none.
#include <cstdio>
#include <cstring>

#include "phantom/nvml/nvml.h"

using namespace ebbtide::phantom;

namespace {

void FillPlace(nvmlDevice_t device, nvmlPciInfo_t& out) {
  const std::string text = PciBusId(NumberOfHandle(device));
  std::memset(&out, 0, sizeof(out));
  out.bus = static_cast<unsigned>(NumberOfHandle(device)) + 1;
  std::snprintf(out.busIdLegacy, sizeof(out.busIdLegacy), "%s", text.c_str());
  std::snprintf(out.busId, sizeof(out.busId), "0000%s", text.c_str());
}

// `count` holds the room there is, and then how many there are.
template <class Info>
nvmlReturn_t ListProcesses(nvmlDevice_t device, unsigned* count, Info* infos) {
  const Ledger* ledger = LedgerOf(device);
  std::vector<Ledger::Holder> holders = ledger ? ledger->holders() : std::vector<Ledger::Holder>();
  unsigned room = *count;
  *count = static_cast<unsigned>(holders.size());
  if (room < holders.size() || (!infos && !holders.empty())) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (std::size_t i = 0; i < holders.size(); ++i) {
    std::memset(&infos[i], 0, sizeof(Info));
    infos[i].pid = static_cast<unsigned>(holders[i].pid);
    infos[i].usedGpuMemory = static_cast<unsigned long long>(holders[i].bytes);
    if constexpr (requires { infos[i].gpuInstanceId; })
      infos[i].gpuInstanceId = infos[i].computeInstanceId = 0xffffffff;
  }
  return NVML_SUCCESS;
}

}  // namespace

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* out) {
  NVML_DEVICE_CALL("nvmlDeviceGetMemoryInfo", device, out);
  const Ledger* ledger = LedgerOf(device);
  out->total = static_cast<unsigned long long>(Profile().memory);
  out->used = static_cast<unsigned long long>(ledger ? ledger->all() : 0);
  out->free = out->total - out->used;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* out) {
  NVML_DEVICE_CALL("nvmlDeviceGetMemoryInfo", device, out);
  const Ledger* ledger = LedgerOf(device);
  out->total = static_cast<unsigned long long>(Profile().memory);
  out->reserved = 0;
  out->used = static_cast<unsigned long long>(ledger ? ledger->all() : 0);
  out->free = out->total - out->used;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned* count, nvmlProcessInfo_v1_t* infos) {
  NVML_DEVICE_CALL("nvmlDeviceGetComputeRunningProcesses", device, count);
  return ListProcesses(device, count, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned* count,
                                                     nvmlProcessInfo_v2_t* infos) {
  NVML_DEVICE_CALL("nvmlDeviceGetComputeRunningProcesses", device, count);
  return ListProcesses(device, count, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count, nvmlProcessInfo_t* infos) {
  NVML_DEVICE_CALL("nvmlDeviceGetComputeRunningProcesses", device, count);
  return ListProcesses(device, count, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned* count, nvmlProcessInfo_t*) {
  NVML_DEVICE_CALL("nvmlDeviceGetGraphicsRunningProcesses", device, count);
  *count = 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t* out) {
  NVML_DEVICE_CALL("nvmlDeviceGetPciInfo", device, out);
  FillPlace(device, *out);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t* out) {
  NVML_DEVICE_CALL("nvmlDeviceGetPciInfo", device, out);
  FillPlace(device, *out);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* out) {
  NVML_DEVICE_CALL("nvmlDeviceGetPciInfo", device, out);
  FillPlace(device, *out);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* out) {
  NVML_DEVICE_CALL("nvmlDeviceGetIndex", device, out);
  *out = static_cast<unsigned>(NumberOfHandle(device));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned* out) {
  NVML_DEVICE_CALL("nvmlDeviceGetMinorNumber", device, out);
  *out = static_cast<unsigned>(NumberOfHandle(device));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  NVML_DEVICE_CALL("nvmlDeviceGetCudaComputeCapability", device, major);
  if (!minor) return NVML_ERROR_INVALID_ARGUMENT;
  *major = static_cast<int>(Profile().compute_major);
  *minor = static_cast<int>(Profile().compute_minor);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* out) {
  NVML_DEVICE_CALL("nvmlDeviceGetUtilizationRates", device, out);
  *out = {};
  return NVML_SUCCESS;
}

// Links are not shown one by one, and there is no fabric.
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link, nvmlIntNvLinkDeviceType_t*) {
  NVML_CALL("nvmlDeviceGetNvLinkRemoteDeviceType", device, link);
  return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, nvmlPciInfo_t*) {
  NVML_CALL("nvmlDeviceGetNvLinkRemotePciInfo", device, link);
  return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, nvmlEnableState_t*) {
  NVML_CALL("nvmlDeviceGetNvLinkState", device, link);
  return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t*) {
  NVML_CALL("nvmlDeviceGetGpuFabricInfoV", device);
  return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer, nvmlGpuP2PCapsIndex_t index,
                                    nvmlGpuP2PStatus_t* out) {
  NVML_CALL("nvmlDeviceGetP2PStatus", device, peer, index);
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  if (NumberOfHandle(device) < 0 || NumberOfHandle(peer) < 0) return NVML_ERROR_INVALID_ARGUMENT;
  const bool reads = index == NVML_P2P_CAPS_INDEX_READ || index == NVML_P2P_CAPS_INDEX_WRITE;
  *out = device != peer && reads ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
  return NVML_SUCCESS;
}
