// What the kernels need of torch's CUDA side. Part of the library for the device cuda alone; null in the other.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include "run/kernels_abi.h"

namespace ebbtide::torch_kernels {

struct CudaSide {
  // Puts ours before torch's allocator. Once; there is no way back.
  void (*install)();
  // Memory that this thread asks for on the GPU comes from there until it is set to null.
  void (*set_memory)(const EbbtideMemory* memory);
  // Of what was given out since: how many pieces are still held.
  int64_t (*held)();
  c10::Allocator* (*allocator)();
  // This thread's stream.
  void* (*stream)(c10::Device device);
};

extern const CudaSide* cuda_side;

}  // namespace ebbtide::torch_kernels
