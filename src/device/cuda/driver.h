// The functions of CUDA's driver that the engine calls, found at run time: one program serves machines with and without
// a GPU, and the phantom GPU stands in for the driver in tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace ebbtide {

using CudaAddress = std::uint64_t;
using CudaContext = struct CudaContextObject*;
using CudaStream = struct CudaStreamObject*;
using CudaEvent = struct CudaEventObject*;
using CudaGraph = struct CudaGraphObject*;
using CudaGraphExec = struct CudaGraphExecObject*;

// The driver's own functions, without the prefix "cu". All return the driver's error code; 0 is success.
struct CudaDriver {
  int (*Init)(unsigned flags);
  int (*DeviceGet)(int* device, int ordinal);
  int (*DevicePrimaryCtxRetain)(CudaContext* context, int device);
  int (*DevicePrimaryCtxRelease)(int device);
  int (*CtxPushCurrent)(CudaContext context);
  int (*CtxPopCurrent)(CudaContext* context);
  int (*MemAlloc)(CudaAddress* address, std::size_t bytes);
  int (*MemFree)(CudaAddress address);
  int (*MemHostRegister)(void* address, std::size_t bytes, unsigned flags);
  int (*MemHostUnregister)(void* address);
  int (*MemcpyAsync)(CudaAddress to, CudaAddress from, std::size_t bytes, CudaStream stream);
  int (*StreamCreate)(CudaStream* stream, unsigned flags);
  int (*StreamDestroy)(CudaStream stream);
  int (*StreamWaitEvent)(CudaStream stream, CudaEvent event, unsigned flags);
  int (*StreamSynchronize)(CudaStream stream);
  int (*EventCreate)(CudaEvent* event, unsigned flags);
  int (*EventDestroy)(CudaEvent event);
  int (*EventRecord)(CudaEvent event, CudaStream stream);
  int (*EventSynchronize)(CudaEvent event);
  int (*EventElapsedTime)(float* milliseconds, CudaEvent from, CudaEvent to);
  int (*StreamBeginCapture)(CudaStream stream, int mode);
  int (*StreamEndCapture)(CudaStream stream, CudaGraph* graph);
  int (*GraphInstantiate)(CudaGraphExec* executable, CudaGraph graph, unsigned long long flags);
  int (*GraphLaunch)(CudaGraphExec executable, CudaStream stream);
  int (*GraphDestroy)(CudaGraph graph);
  int (*GraphExecDestroy)(CudaGraphExec executable);
  int (*GetErrorName)(int code, const char** name);

  // "CUDA_ERROR_OUT_OF_MEMORY"
  std::string NameOf(int code) const;
};

// Functions that only the phantom GPU has (phantom/core/declare.h). Null where the driver is a real one.
struct PhantomCalls {
  void (*begin)(const char* name, const char* frame) = nullptr;
  void (*end)() = nullptr;
  void (*declare)(void* stream, const void* address, std::size_t bytes, int is_write, const char* name) = nullptr;
  bool there() const { return begin && end && declare; }
};

// The driver of this machine: loaded at the first call and kept for good. An error where the machine has none, or one
// that is too old. Both functions may be called from any thread.
Result<const CudaDriver*> LoadCudaDriver();
const PhantomCalls& Phantom();

}  // namespace ebbtide
