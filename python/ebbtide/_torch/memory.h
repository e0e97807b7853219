// Torch's CPU memory while the engine runs an op on this thread: what the engine gives. At all other times, torch's
// own.
#pragma once

#include "run/kernels_abi.h"

namespace ebbtide::torch_kernels {

// Inside, tensors that this thread makes on the CPU lie in `memory`.
class InMemory {
 public:
  explicit InMemory(const EbbtideMemory* memory);
  ~InMemory();
  InMemory(const InMemory&) = delete;
  InMemory& operator=(const InMemory&) = delete;
};

// Puts ours before torch's allocator. Once; there is no way back.
void InstallAllocator();

}  // namespace ebbtide::torch_kernels
