// cuGetProcAddress: functions by the name that programs write and the CUDA version they were written for.
#include <string_view>

#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

namespace {

// "cuMemcpyHtoD_v2_ptds" is cuMemcpyHtoD of threads' own default streams.
struct Form {
  std::string_view base;
  bool per_thread = false;
};

Form FormOf(std::string_view symbol) {
  Form form{symbol};
  for (std::string_view ending : {"_ptsz", "_ptds"}) {
    if (!form.base.ends_with(ending)) continue;
    form.base.remove_suffix(ending.size());
    form.per_thread = true;
  }
  std::size_t size = form.base.size();
  if (size > 3 && form.base[size - 3] == '_' && form.base[size - 2] == 'v') form.base.remove_suffix(3);
  return form;
}

CUresult LookUp(const char* name, void** out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  if (!name || !out) return CUDA_ERROR_INVALID_VALUE;
  bool want_per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  const ApiFunction* best = nullptr;
  bool later = false;
  for (int i = 0; i < kApiFunctionCount; ++i) {
    const ApiFunction& function = kApiFunctions[i];
    Form form = FormOf(function.name);
    if (form.base != name && std::string_view(function.name) != name) continue;
    if (form.per_thread && !want_per_thread && form.base == name) continue;
    if (function.since > version) {
      later = true;
      continue;
    }
    // The latest form that the version has; between two of one age, the one of the threads' own streams if wanted.
    if (!best || function.since > best->since || (function.since == best->since && form.per_thread)) best = &function;
  }
  *out = best ? best->address : nullptr;
  CUdriverProcAddressQueryResult found = best    ? CU_GET_PROC_ADDRESS_SUCCESS
                                         : later ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                                 : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (status) *status = found;
  return best || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

}  // namespace

// cuda.h renames it to _v2.
CUresult cuGetProcAddress(const char* name, void** out, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status) {
  DRIVER_ANY_CALL("cuGetProcAddress", name, version, flags);
  return LookUp(name, out, version, flags, status);
}

#undef cuGetProcAddress
extern "C" __attribute__((visibility("default"))) CUresult cuGetProcAddress(const char* name, void** out, int version,
                                                                            cuuint64_t flags) {
  DRIVER_ANY_CALL("cuGetProcAddress", name, version, flags);
  return LookUp(name, out, version, flags, nullptr);
}

// Tables of functions that the driver keeps for NVIDIA's own libraries: there are none here. NVRTC asks for one, and
// does without.
CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  DRIVER_ANY_CALL("cuGetExportTable");
  if (!table || !id) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}
