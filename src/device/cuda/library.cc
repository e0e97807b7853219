// Opens libcuda.so.1 and looks its functions up.
#include "device/cuda/library.h"

#include <dlfcn.h>

namespace ebbtide {

Result<CudaLibrary> CudaLibrary::Open() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return Fail("device cuda: this machine has no CUDA driver (libcuda.so.1)");
  return CudaLibrary(library);
}

void* CudaLibrary::Symbol(const char* name) const { return dlsym(library_, name); }

Status CudaLibrary::AllFound() const {
  if (missing_.empty()) return {};
  return Fail("device cuda: the CUDA driver has no {}; expected a newer one", missing_);
}

void* SymbolInProcess(const char* name) { return dlsym(RTLD_DEFAULT, name); }

}  // namespace ebbtide
