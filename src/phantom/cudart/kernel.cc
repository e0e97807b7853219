// What kernels say of themselves, how many fit, and variables on the device.
#include "phantom/core/attributes.h"
#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;
using ebbtide::Bytes;

namespace {

cudaError_t SetAttribute(Kernel* kernel, cudaFuncAttribute attribute, int value) {
  if (!kernel) return Return(kInvalidDeviceFunction);
  return Return(SetKernelAttribute(Profile(), *kernel, attribute, value));
}

}  // namespace

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* function) {
  RUNTIME_DEVICE_CALL("cudaFuncGetAttributes", function);
  Kernel* kernel = KernelOf(function);
  if (!out) return Return(Code::kInvalidValue);
  if (!kernel) return Return(kInvalidDeviceFunction);
  *out = {};
  out->maxThreadsPerBlock = kThreadsPerBlock;
  out->numRegs = kRegistersPerThread;
  out->ptxVersion = out->binaryVersion = static_cast<int>(Profile().compute_major * 10 + Profile().compute_minor);
  out->maxDynamicSharedSizeBytes = kernel->dynamic_shared_limit;
  out->preferredShmemCarveout = kernel->shared_carveout;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  RUNTIME_DEVICE_CALL("cudaFuncSetAttribute", function, attribute, value);
  return SetAttribute(KernelOf(function), attribute, value);
}

#if EBBTIDE_CUDA_GENERATION >= 13
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute, int value, int device) {
  RUNTIME_DEVICE_CALL("cudaKernelSetAttributeForDevice", kernel, attribute, value, device);
  if (!IsGpu(device)) return Return(Code::kInvalidDevice);
  return SetAttribute(TheKernels().Check(kernel), attribute, value);
}
#endif

cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache config) {
  RUNTIME_DEVICE_CALL("cudaFuncSetCacheConfig", function, config);
  return Return(KernelOf(function) ? Code::kSuccess : kInvalidDeviceFunction);
}

cudaError_t cudaFuncGetName(const char** name, const void* function) {
  RUNTIME_DEVICE_CALL("cudaFuncGetName", function);
  Kernel* kernel = KernelOf(function);
  if (!name) return Return(Code::kInvalidValue);
  if (!kernel) return Return(kInvalidDeviceFunction);
  *name = kernel->name.c_str();
  return cudaSuccess;
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* out, const void* symbol) {
  RUNTIME_DEVICE_CALL("cudaGetFuncBySymbol", symbol);
  Kernel* kernel = TheKernels().Find(symbol);
  if (!out) return Return(Code::kInvalidValue);
  if (!kernel) return Return(kInvalidDeviceFunction);
  *out = reinterpret_cast<cudaFunction_t>(kernel);
  return cudaSuccess;
}

cudaError_t cudaGetKernel(cudaKernel_t* out, const void* symbol) {
  RUNTIME_DEVICE_CALL("cudaGetKernel", symbol);
  Kernel* kernel = TheKernels().Find(symbol);
  if (!out) return Return(Code::kInvalidValue);
  if (!kernel) return Return(kInvalidDeviceFunction);
  *out = reinterpret_cast<cudaKernel_t>(kernel);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                          size_t shared) {
  RUNTIME_DEVICE_CALL("cudaOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, shared);
  if (!blocks) return Return(Code::kInvalidValue);
  *blocks = BlocksPerMultiprocessor(Profile(), threads, static_cast<Bytes>(shared));
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads,
                                                                   size_t shared, unsigned flags) {
  RUNTIME_DEVICE_CALL("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", function, threads, shared, flags);
  if (!blocks) return Return(Code::kInvalidValue);
  *blocks = BlocksPerMultiprocessor(Profile(), threads, static_cast<Bytes>(shared));
  return cudaSuccess;
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function, int blocks, int threads) {
  RUNTIME_DEVICE_CALL("cudaOccupancyAvailableDynamicSMemPerBlock", function, blocks, threads);
  if (!bytes || blocks < 1) return Return(Code::kInvalidValue);
  *bytes = static_cast<std::size_t>(Profile().shared_memory_per_multiprocessor / blocks);
  return cudaSuccess;
}

cudaError_t cudaGetSymbolAddress(void** out, const void* symbol) {
  RUNTIME_DEVICE_CALL("cudaGetSymbolAddress", symbol);
  const Variable* variable = TheKernels().FindVariable(symbol, TheDevice());
  if (!out) return Return(Code::kInvalidValue);
  if (!variable) return Return(static_cast<Code>(cudaErrorInvalidSymbol));
  *out = reinterpret_cast<void*>(variable->address);
  return cudaSuccess;
}

cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  RUNTIME_DEVICE_CALL("cudaGetSymbolSize", symbol);
  const Variable* variable = TheKernels().FindVariable(symbol, TheDevice());
  if (!bytes) return Return(Code::kInvalidValue);
  if (!variable) return Return(static_cast<Code>(cudaErrorInvalidSymbol));
  *bytes = static_cast<std::size_t>(variable->size);
  return cudaSuccess;
}
