// Libraries of kernels that a program loads while it runs.
#include <fstream>
#include <iterator>

#include "phantom/core/module.h"
#include "phantom/cudart/runtime.h"

#if EBBTIDE_CUDA_GENERATION >= 13

using namespace ebbtide::phantom;

namespace {

cudaError_t LoadImage(cudaLibrary_t* out, const void* image) {
  if (!out || !image) return Return(Code::kInvalidValue);
  std::shared_ptr<Module> module = TheModules().Load(image);
  if (!module) return Return(Code::kInvalidImage);
  *out = reinterpret_cast<cudaLibrary_t>(module.get());
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaLibraryLoadData(cudaLibrary_t* out, const void* image, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned) {
  RUNTIME_DEVICE_CALL("cudaLibraryLoadData", image);
  return LoadImage(out, image);
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* out, const char* path, cudaJitOption*, void**, unsigned,
                                    cudaLibraryOption*, void**, unsigned) {
  RUNTIME_DEVICE_CALL("cudaLibraryLoadFromFile", path);
  if (!path) return Return(Code::kInvalidValue);
  std::ifstream file(path, std::ios::binary);
  if (!file) return Return(Code::kFileNotFound);
  std::string content((std::istreambuf_iterator<char>(file)), {});
  content.resize(content.size() + 16);
  return LoadImage(out, content.data());
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  RUNTIME_DEVICE_CALL("cudaLibraryUnload", library);
  return Return(TheModules().Unload(library) ? Code::kSuccess : Code::kInvalidHandle);
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* out, cudaLibrary_t library, const char* name) {
  RUNTIME_DEVICE_CALL("cudaLibraryGetKernel", library, name);
  std::shared_ptr<Module> module = TheModules().Find(library);
  if (!out || !name || !*name) return Return(Code::kInvalidValue);
  if (!module) return Return(Code::kInvalidHandle);
  *out = reinterpret_cast<cudaKernel_t>(TheModules().KernelOf(*module, name));
  return cudaSuccess;
}

#endif
