// What code compiled by nvcc calls when it is loaded and around <<<...>>>: kernels and variables get their names here.
#include <vector>

#include "phantom/cudart/runtime.h"

#define REGISTER extern "C" __attribute__((visibility("default")))

using namespace ebbtide::phantom;

namespace {

struct CallConfiguration {
  dim3 grid, block;
  std::size_t shared_memory;
  cudaStream_t stream;
};

std::vector<CallConfiguration>& Configurations() {
  thread_local std::vector<CallConfiguration> configurations;
  return configurations;
}

}  // namespace

REGISTER void** __cudaRegisterFatBinary(void*) {
  return new void* [1] { nullptr };
}

REGISTER void __cudaRegisterFatBinaryEnd(void**) {}

REGISTER void __cudaUnregisterFatBinary(void** handle) { delete[] handle; }

REGISTER char __cudaInitModule(void**) { return 0; }

REGISTER void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*,
                                     dim3*, int*) {
  TheKernels().Register(host, name);
}

REGISTER void __cudaRegisterVar(void**, char* host, char*, const char* name, int, std::size_t size, int, int) {
  TheKernels().RegisterVariable(host, name, static_cast<ebbtide::Bytes>(size));
}

REGISTER cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* host) {
  Kernel* kernel = TheKernels().Find(host);
  if (!kernel) return Return(static_cast<Code>(98));
  *out = reinterpret_cast<cudaKernel_t>(kernel);
  return cudaSuccess;
}

REGISTER unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_memory, void* stream) {
  Configurations().push_back({grid, block, shared_memory, static_cast<cudaStream_t>(stream)});
  return 0;
}

REGISTER cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_memory, void* stream) {
  if (Configurations().empty()) return Return(static_cast<Code>(cudaErrorMissingConfiguration));
  CallConfiguration top = Configurations().back();
  Configurations().pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared_memory = top.shared_memory;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}
