// Modules and libraries of kernels. Their code is not read: every name is a kernel of a module that looks like one.
#include "phantom/core/module.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

namespace {

template <class Handle>
CUresult LoadImage(Handle* out, const void* image) {
  if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> module = TheModules().Load(image);
  if (!module) return CUDA_ERROR_INVALID_IMAGE;
  *out = reinterpret_cast<Handle>(module.get());
  return CUDA_SUCCESS;
}

template <class Handle>
CUresult LoadFile(Handle* out, const char* path) {
  if (!out || !path) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string content((std::istreambuf_iterator<char>(file)), {});
  content.resize(content.size() + 16);
  return LoadImage(out, content.data());
}

CUresult FindKernel(void* handle, const char* name, Kernel*& out) {
  std::shared_ptr<Module> module = TheModules().Find(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (!name || !*name) return CUDA_ERROR_INVALID_VALUE;
  out = TheModules().KernelOf(*module, name);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuModuleLoad(CUmodule* out, const char* path) {
  DRIVER_CONTEXT_CALL("cuModuleLoad", path);
  return LoadFile(out, path);
}

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  DRIVER_CONTEXT_CALL("cuModuleLoadData", image);
  return LoadImage(out, image);
}

CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned, CUjit_option*, void**) {
  DRIVER_CONTEXT_CALL("cuModuleLoadDataEx", image);
  return LoadImage(out, image);
}

CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  DRIVER_CONTEXT_CALL("cuModuleLoadFatBinary", image);
  return LoadImage(out, image);
}

CUresult cuModuleUnload(CUmodule module) {
  DRIVER_CONTEXT_CALL("cuModuleUnload", module);
  return TheModules().Unload(module) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  DRIVER_CALL("cuModuleGetLoadingMode");
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  DRIVER_CONTEXT_CALL("cuModuleGetFunction", module, name);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  Kernel* kernel = nullptr;
  CUresult result = FindKernel(module, name, kernel);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUfunction>(kernel);
  return result;
}

CUresult cuLibraryLoadData(CUlibrary* out, const void* image, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
                           unsigned) {
  DRIVER_CALL("cuLibraryLoadData", image);
  return LoadImage(out, image);
}

CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option*, void**, unsigned, CUlibraryOption*,
                               void**, unsigned) {
  DRIVER_CALL("cuLibraryLoadFromFile", path);
  return LoadFile(out, path);
}

CUresult cuLibraryUnload(CUlibrary library) {
  DRIVER_CALL("cuLibraryUnload", library);
  return TheModules().Unload(library) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary library, const char* name) {
  DRIVER_CALL("cuLibraryGetKernel", library, name);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  Kernel* kernel = nullptr;
  CUresult result = FindKernel(library, name, kernel);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUkernel>(kernel);
  return result;
}

CUresult cuLibraryGetModule(CUmodule* out, CUlibrary library) {
  DRIVER_CONTEXT_CALL("cuLibraryGetModule", library);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!TheModules().Find(library)) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
  DRIVER_CONTEXT_CALL("cuKernelGetFunction", kernel);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!TheKernels().Check(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
