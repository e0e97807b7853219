// The driver's functions by name, for programs that do not link the driver.
#include <dlfcn.h>

#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;

namespace {

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
constexpr unsigned long long kDefaultFlags = 2;
#else
constexpr unsigned long long kDefaultFlags = 1;
#endif

using Finder = int(const char*, void**, int, unsigned long long, int*);

// libcuda is beside this library; a program that was started with the phantom has it loaded.
Finder* DriverFinder() {
  static Finder* finder = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    return driver ? reinterpret_cast<Finder*>(dlsym(driver, "cuGetProcAddress_v2")) : nullptr;
  }();
  return finder;
}

cudaError_t LookUp(const char* name, void** out, unsigned version, unsigned long long flags,
                   cudaDriverEntryPointQueryResult* status) {
  if (!name || !out) return Return(Code::kInvalidValue);
  Finder* finder = DriverFinder();
  if (!finder) return Return(static_cast<Code>(cudaErrorInsufficientDriver));
  int result = cudaDriverEntryPointSymbolNotFound;
  if (flags == 0) flags = kDefaultFlags;
  Code code = static_cast<Code>(finder(name, out, static_cast<int>(version), flags, &result));
  if (status) *status = static_cast<cudaDriverEntryPointQueryResult>(result);
  if (code == Code::kSuccess && !status && !*out) return Return(Code::kNotFound);
  return Return(code);
}

}  // namespace

cudaError_t cudaGetDriverEntryPoint(const char* name, void** out, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  RUNTIME_CALL("cudaGetDriverEntryPoint", name, flags);
  return LookUp(name, out, CUDART_VERSION, flags, status);
}

// CUDA 12 has it from 12.5 on, later than the headers that this is compiled with.
#if EBBTIDE_CUDA_GENERATION == 12
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define cudaGetDriverEntryPointByVersion cudaGetDriverEntryPointByVersion_ptsz
#endif
extern "C" __attribute__((visibility("default")))
#endif
cudaError_t
cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned version, unsigned long long flags,
                                 cudaDriverEntryPointQueryResult* status) {
  RUNTIME_CALL("cudaGetDriverEntryPointByVersion", name, version, flags);
  return LookUp(name, out, version, flags, status);
}
