// Inside libnvidia-ml: the public header with its functions visible, every form of a function under its own name.
#pragma once

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#pragma GCC visibility push(default)
#include <nvml.h>
#pragma GCC visibility pop

#include "phantom/core/api.h"
#include "phantom/core/attributes.h"
#include "phantom/core/device.h"

namespace ebbtide::phantom {

inline nvmlReturn_t FromCode(Code code) {
  if (code == Code::kSuccess) return NVML_SUCCESS;
  return code == Code::kLaunchFailed ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_UNKNOWN;
}

// Devices by their number on the machine: CUDA_VISIBLE_DEVICES means nothing to NVML.
int GpuCount();
nvmlDevice_t HandleOf(int number);
// -1 where it is no handle.
int NumberOfHandle(nvmlDevice_t handle);
// "GPU-...", as NVML prints it.
std::string UuidText(int number);
// Of memory; null where the process sees no device of that number.
const Ledger* LedgerOf(nvmlDevice_t handle);

}  // namespace ebbtide::phantom

#define NVML_CALL(name, ...) EBB_PHANTOM_CALL(::ebbtide::phantom::FromCode, name __VA_OPT__(, ) __VA_ARGS__)

// Calls about a device, with a place for the answer.
#define NVML_DEVICE_CALL(name, device, out) \
  NVML_CALL(name, device);                  \
  if (NumberOfHandle(device) < 0 || !out) return NVML_ERROR_INVALID_ARGUMENT
