// What kernels say of themselves and how many fit.
#include "phantom/core/attributes.h"
#include "phantom/core/module.h"
#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

namespace {

CUresult GetAttribute(int* value, CUfunction_attribute attribute, const void* handle) {
  Kernel* kernel = TheKernels().Check(handle);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  std::optional<int> found = KernelAttribute(Profile(), *kernel, attribute);
  if (!value || !found) return CUDA_ERROR_INVALID_VALUE;
  *value = *found;
  return CUDA_SUCCESS;
}

CUresult SetAttribute(CUfunction_attribute attribute, int value, const void* handle) {
  Kernel* kernel = TheKernels().Check(handle);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  return Answer(SetKernelAttribute(Profile(), *kernel, attribute, value));
}

CUresult GetName(const char** name, const void* handle) {
  Kernel* kernel = TheKernels().Check(handle);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}

// The largest block with the most resident threads, as the real function prefers it.
CUresult PotentialBlock(int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of, std::size_t shared,
                        int limit) {
  if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
  if (!TheKernels().Check(function)) return CUDA_ERROR_INVALID_HANDLE;
  int most = limit > 0 && limit < kThreadsPerBlock ? limit : kThreadsPerBlock;
  int best_threads = 0;
  for (int threads = most / kWarp * kWarp; threads > 0; threads -= kWarp) {
    std::size_t bytes = shared_of ? shared_of(threads) : shared;
    int blocks = BlocksPerMultiprocessor(Profile(), threads, Size(bytes));
    if (blocks * threads <= best_threads) continue;
    best_threads = blocks * threads;
    *block = threads;
    *grid = blocks * static_cast<int>(Profile().multiprocessors);
  }
  return best_threads > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  DRIVER_CONTEXT_CALL("cuFuncGetAttribute", attribute, function);
  return GetAttribute(value, attribute, function);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  DRIVER_CONTEXT_CALL("cuFuncSetAttribute", function, attribute, value);
  return SetAttribute(attribute, value, function);
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
  DRIVER_CALL("cuKernelGetAttribute", attribute, kernel, device);
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  return GetAttribute(value, attribute, kernel);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  DRIVER_CALL("cuKernelSetAttribute", attribute, value, kernel, device);
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  return SetAttribute(attribute, value, kernel);
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
  DRIVER_CONTEXT_CALL("cuFuncSetCacheConfig", function, config);
  return TheKernels().Check(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetName(const char** name, CUfunction function) {
  DRIVER_CALL("cuFuncGetName", function);
  return GetName(name, function);
}

CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  DRIVER_CALL("cuKernelGetName", kernel);
  return GetName(name, kernel);
}

CUresult cuFuncGetModule(CUmodule* out, CUfunction function) {
  DRIVER_CONTEXT_CALL("cuFuncGetModule", function);
  Kernel* kernel = TheKernels().Check(function);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!kernel || !kernel->module) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUmodule>(const_cast<Module*>(kernel->module));
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) {
  DRIVER_CONTEXT_CALL("cuFuncLoad", function);
  return TheKernels().Check(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  DRIVER_CONTEXT_CALL("cuFuncIsLoaded", function);
  if (!state || !TheKernels().Check(function)) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads, size_t shared) {
  DRIVER_CONTEXT_CALL("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, shared);
  if (!blocks || threads < 1) return CUDA_ERROR_INVALID_VALUE;
  if (!TheKernels().Check(function)) return CUDA_ERROR_INVALID_HANDLE;
  *blocks = BlocksPerMultiprocessor(Profile(), threads, Size(shared));
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int threads,
                                                              size_t shared, unsigned flags) {
  DRIVER_CONTEXT_CALL("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", function, threads, shared, flags);
  if (!blocks || threads < 1) return CUDA_ERROR_INVALID_VALUE;
  if (!TheKernels().Check(function)) return CUDA_ERROR_INVALID_HANDLE;
  *blocks = BlocksPerMultiprocessor(Profile(), threads, Size(shared));
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of,
                                          size_t shared, int limit) {
  DRIVER_CONTEXT_CALL("cuOccupancyMaxPotentialBlockSize", function, shared, limit);
  return PotentialBlock(grid, block, function, shared_of, shared, limit);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                   CUoccupancyB2DSize shared_of, size_t shared, int limit,
                                                   unsigned flags) {
  DRIVER_CONTEXT_CALL("cuOccupancyMaxPotentialBlockSizeWithFlags", function, shared, limit, flags);
  return PotentialBlock(grid, block, function, shared_of, shared, limit);
}
