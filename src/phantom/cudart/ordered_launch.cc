// Kernel launches. Their arguments are not looked at.
#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;

namespace {

cudaError_t Start(Kernel* kernel, dim3 grid, dim3 block, std::size_t shared_memory, cudaStream_t handle) {
  if (!kernel) return Return(kInvalidDeviceFunction);
  RUNTIME_STREAM(stream, handle);
  LaunchShape shape{{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_memory};
  return Return(LaunchKernel(TheDevice(), *kernel, shape, *stream));
}

}  // namespace

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void**, size_t shared_memory,
                             cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaLaunchKernel", function, stream);
  return Start(KernelOf(function), grid, block, shared_memory, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void**, size_t shared_memory,
                                        cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaLaunchCooperativeKernel", function, stream);
  return Start(KernelOf(function), grid, block, shared_memory, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void**) {
  RUNTIME_DEVICE_CALL("cudaLaunchKernelExC", function);
  if (!config) return Return(Code::kInvalidValue);
  return Start(KernelOf(function), config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream);
}

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define __cudaLaunchKernel __cudaLaunchKernel_ptsz
#endif
extern "C" __attribute__((visibility("default"))) cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid,
                                                                                 dim3 block, void**,
                                                                                 size_t shared_memory,
                                                                                 cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaLaunchKernel", kernel, stream);
  return Start(TheKernels().Check(kernel), grid, block, shared_memory, stream);
}
