// Inside libcuda: the public header with its functions visible, and the usual first lines of a function. Files named
// ordered_*.cc are compiled twice: there the null stream means the legacy stream, and the thread's own in the functions
// that end in _ptds and _ptsz.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include "phantom/core/api.h"
#include "phantom/core/copy.h"
#include "phantom/core/declare.h"
#include "phantom/core/device.h"
#include "phantom/core/kernels.h"

namespace ebbtide::phantom {

inline CUresult Answer(Code code) { return static_cast<CUresult>(code); }

// CUstream as given to a function of this file; static, for its two meanings lie in one library.
[[maybe_unused]] static std::shared_ptr<Stream> StreamOf(CUstream stream) {
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
  if (stream == nullptr) stream = CU_STREAM_PER_THREAD;
#endif
  return TheDevice().streams.Find(stream);
}

inline Address AddressOf(const void* pointer) { return reinterpret_cast<Address>(pointer); }

// Sizes as the API gives them: beyond what any device has, they stay there.
inline Bytes Size(std::size_t bytes) {
  return bytes > static_cast<std::size_t>(kTooLarge) ? kTooLarge + 1 : static_cast<Bytes>(bytes);
}

}  // namespace ebbtide::phantom

// Calls that work before cuInit.
#define DRIVER_ANY_CALL(name, ...) EBB_PHANTOM_CALL(::ebbtide::phantom::Answer, name __VA_OPT__(, ) __VA_ARGS__)

#define DRIVER_CALL(name, ...)                      \
  DRIVER_ANY_CALL(name __VA_OPT__(, ) __VA_ARGS__); \
  if (!::ebbtide::phantom::TheDevice().contexts.initialized()) return CUDA_ERROR_NOT_INITIALIZED

// Calls that need a context of the thread.
#define DRIVER_CONTEXT_CALL(name, ...)          \
  DRIVER_CALL(name __VA_OPT__(, ) __VA_ARGS__); \
  if (!::ebbtide::phantom::TheDevice().contexts.Current()) return CUDA_ERROR_INVALID_CONTEXT

#define DRIVER_STREAM(variable, handle)                                    \
  std::shared_ptr<::ebbtide::phantom::Stream> variable = StreamOf(handle); \
  if (!variable) return CUDA_ERROR_INVALID_HANDLE
