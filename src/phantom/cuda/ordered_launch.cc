// Kernel launches. Their arguments are not looked at.
#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

namespace {

CUresult Start(CUfunction function, const LaunchShape& shape, CUstream handle) {
  Kernel* kernel = TheKernels().Check(function);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  DRIVER_STREAM(stream, handle);
  Code code = LaunchKernel(TheDevice(), *kernel, shape, *stream);
  return code == Code::kInvalidConfiguration ? CUDA_ERROR_INVALID_VALUE : Answer(code);
}

}  // namespace

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_memory, CUstream stream, void**, void**) {
  DRIVER_CONTEXT_CALL("cuLaunchKernel", function, grid_x, grid_y, grid_z, block_x, block_y, block_z, stream);
  return Start(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_memory}, stream);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void**, void**) {
  DRIVER_CONTEXT_CALL("cuLaunchKernelEx", function);
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  return Start(function,
               {{config->gridDimX, config->gridDimY, config->gridDimZ},
                {config->blockDimX, config->blockDimY, config->blockDimZ},
                config->sharedMemBytes},
               config->hStream);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_memory,
                                   CUstream stream, void**) {
  DRIVER_CONTEXT_CALL("cuLaunchCooperativeKernel", function, stream);
  return Start(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_memory}, stream);
}
