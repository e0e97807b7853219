// Torch's memory while the engine runs an op on this thread: what the engine gives. At all other times, torch's
// own.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <vector>

#include "run/engine/kernels_abi.h"

namespace ebbtide::torch_kernels {

// While such an object lives, tensors that this thread makes on the device lie in `memory`.
class InMemory {
 public:
  InMemory(const EbbtideMemory* memory, c10::Device device);
  ~InMemory();
  InMemory(const InMemory&) = delete;
  InMemory& operator=(const InMemory&) = delete;

 private:
  const bool on_cuda_;
};

// How many pieces of the CPU's memory that were given out to this thread since InMemory was made are still held, beside
// those at the addresses.
std::size_t HeldBeside(const std::vector<const void*>& addresses);

// Puts our allocator before torch's for the CPU, for the rest of the process. Further calls do nothing.
void InstallAllocator();

}  // namespace ebbtide::torch_kernels
