// The library itself, and finding the device.
#include <cstdio>
#include <cstring>
#include <string_view>

#include "phantom/nvml/nvml.h"

using namespace ebbtide::phantom;

namespace {

struct ErrorText {
  nvmlReturn_t error;
  const char* text;
};

constexpr ErrorText kErrors[] = {
    {NVML_SUCCESS, "Success"},
    {NVML_ERROR_UNINITIALIZED, "Uninitialized"},
    {NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
    {NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
    {NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"},
    {NVML_ERROR_NOT_FOUND, "Not Found"},
    {NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
    {NVML_ERROR_GPU_IS_LOST, "GPU is lost"},
    {NVML_ERROR_UNKNOWN, "Unknown Error"},
};

nvmlReturn_t PutText(const char* text, char* out, unsigned length) {
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  if (std::strlen(text) + 1 > length) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::strcpy(out, text);
  return NVML_SUCCESS;
}

nvmlReturn_t ByIndex(unsigned index, nvmlDevice_t* out) {
  if (index >= static_cast<unsigned>(GpuCount()) || !out) return NVML_ERROR_INVALID_ARGUMENT;
  *out = HandleOf(static_cast<int>(index));
  return NVML_SUCCESS;
}

// Domains are written with four digits or eight.
nvmlReturn_t ByBus(const char* id, nvmlDevice_t* out) {
  if (!id || !out) return NVML_ERROR_INVALID_ARGUMENT;
  for (int number = 0; number < GpuCount(); ++number) {
    if (!std::string_view(id).ends_with(PciBusId(number))) continue;
    *out = HandleOf(number);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

}  // namespace

namespace ebbtide::phantom {

int GpuCount() { return TheDevice().config.gpus; }

namespace {
char places[256];  // one for each device that there may be
}

nvmlDevice_t HandleOf(int number) { return reinterpret_cast<nvmlDevice_t>(&places[number]); }

int NumberOfHandle(nvmlDevice_t handle) {
  for (int number = 0; number < GpuCount(); ++number)
    if (handle == HandleOf(number)) return number;
  return -1;
}

const Ledger* LedgerOf(nvmlDevice_t handle) {
  for (int index = 0; index < TheDevice().gpu_count(); ++index)
    if (NumberOf(index) == NumberOfHandle(handle)) return &TheDevice().gpu(index).ledger;
  return nullptr;
}

std::string UuidText(int number) {
  char bytes[16];
  DeviceUuid(Profile(), number, bytes);
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(bytes[i]));
    text += digits;
  }
  return text;
}

}  // namespace ebbtide::phantom

nvmlReturn_t nvmlInit() {
  NVML_CALL("nvmlInit");
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2() {
  NVML_CALL("nvmlInit");
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
  NVML_CALL("nvmlInitWithFlags", flags);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown() {
  NVML_CALL("nvmlShutdown");
  return NVML_SUCCESS;
}

const char* nvmlErrorString(nvmlReturn_t error) {
  for (const ErrorText& row : kErrors)
    if (row.error == error) return row.text;
  return "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* out, unsigned length) {
  NVML_CALL("nvmlSystemGetDriverVersion");
  return PutText("595.00", out, length);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char* out, unsigned length) {
  NVML_CALL("nvmlSystemGetNVMLVersion");
  return PutText("13.595.00", out, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* out) {
  NVML_CALL("nvmlSystemGetCudaDriverVersion");
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  *out = kDriverVersion;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* out) {
  NVML_CALL("nvmlSystemGetCudaDriverVersion");
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  *out = kDriverVersion;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned* out) {
  NVML_CALL("nvmlDeviceGetCount");
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  *out = static_cast<unsigned>(GpuCount());
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* out) {
  NVML_CALL("nvmlDeviceGetCount");
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  *out = static_cast<unsigned>(GpuCount());
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* out) {
  NVML_CALL("nvmlDeviceGetHandleByIndex", index);
  return ByIndex(index, out);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* out) {
  NVML_CALL("nvmlDeviceGetHandleByIndex", index);
  return ByIndex(index, out);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* id, nvmlDevice_t* out) {
  NVML_CALL("nvmlDeviceGetHandleByPciBusId", id);
  return ByBus(id, out);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* out) {
  NVML_CALL("nvmlDeviceGetHandleByPciBusId", id);
  return ByBus(id, out);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* out) {
  NVML_CALL("nvmlDeviceGetHandleByUUID", uuid);
  if (!uuid || !out) return NVML_ERROR_INVALID_ARGUMENT;
  for (int number = 0; number < GpuCount(); ++number) {
    if (UuidText(number) != uuid) continue;
    *out = HandleOf(number);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* out, unsigned length) {
  NVML_DEVICE_CALL("nvmlDeviceGetName", device, out);
  return PutText(Profile().product.c_str(), out, length);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* out, unsigned length) {
  NVML_DEVICE_CALL("nvmlDeviceGetUUID", device, out);
  return PutText(UuidText(NumberOfHandle(device)).c_str(), out, length);
}
