// Inside libcudart: the public header with its functions visible, errors of the thread, and the usual first lines of a
// function. Files named ordered_*.cc are compiled twice: there the null stream means the legacy stream, and the
// thread's own in the functions that end in _ptds and _ptsz.
#pragma once

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

#include "phantom/core/api.h"
#include "phantom/core/copy.h"
#include "phantom/core/declare.h"
#include "phantom/core/device.h"
#include "phantom/core/kernels.h"

namespace ebbtide::phantom {

// The thread's last error is set by every call that fails.
cudaError_t Return(Code code);

// cudaStream_t as given to a function of this file; static, for its two meanings lie in one library.
[[maybe_unused]] static std::shared_ptr<Stream> StreamOf(cudaStream_t stream) {
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
  if (stream == nullptr) stream = cudaStreamPerThread;
#endif
  return TheDevice().streams.Find(stream);
}

inline constexpr Code kInvalidDeviceFunction = static_cast<Code>(98);

// What is launched or asked about may be given by its host function or by a kernel handle; null: it is neither.
inline Kernel* KernelOf(const void* function) {
  Kernels& kernels = TheKernels();
  Kernel* kernel = kernels.Find(function);
  return kernel ? kernel : kernels.Check(function);
}

inline Address AddressOf(const void* pointer) { return reinterpret_cast<Address>(pointer); }

}  // namespace ebbtide::phantom

// The runtime initializes the driver with its first call, whatever that is.
#define RUNTIME_CALL(name, ...)                                                  \
  EBB_PHANTOM_CALL(::ebbtide::phantom::Return, name __VA_OPT__(, ) __VA_ARGS__); \
  if (!::ebbtide::phantom::TheDevice().contexts.initialized()) [[unlikely]]      \
  ::ebbtide::phantom::TheDevice().contexts.Initialize()

// The same for calls that need the device's context.
#define RUNTIME_DEVICE_CALL(name, ...)                                                       \
  RUNTIME_CALL(name __VA_OPT__(, ) __VA_ARGS__);                                             \
  if (::ebbtide::phantom::Code phantom_use = ::ebbtide::phantom::TheDevice().contexts.Use(); \
      phantom_use != ::ebbtide::phantom::Code::kSuccess)                                     \
  return ::ebbtide::phantom::Return(phantom_use)

// Declares `variable`, the stream behind `handle`, or ends the call with cudaErrorInvalidResourceHandle.
#define RUNTIME_STREAM(variable, handle)                                   \
  std::shared_ptr<::ebbtide::phantom::Stream> variable = StreamOf(handle); \
  if (!variable) return ::ebbtide::phantom::Return(::ebbtide::phantom::Code::kInvalidHandle)
