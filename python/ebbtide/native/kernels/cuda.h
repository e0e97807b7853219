// What the kernels need of torch's CUDA side. Part of the library for the device cuda alone; null in the other.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <memory>

#include "budget.h"
#include "run/engine/kernels_abi.h"

namespace ebbtide::torch_kernels {

struct CudaSide {
  // Puts our allocator before torch's, for the rest of the process. Does nothing where it is there already.
  void (*install)();
  // Memory that this thread asks for on the GPU comes from there until it is set to null.
  void (*set_memory)(const EbbtideMemory* memory);
  // How many pieces of memory are still held that were given out since set_memory.
  int64_t (*held)();
  c10::Allocator* (*allocator)();
  // This thread's stream.
  void* (*stream)(c10::Device device);
  // Copies on this thread's stream, and waits for it.
  void (*copy)(void* to, const void* from, std::size_t bytes, c10::Device device);
  // The memory that a budget on that GPU is of.
  std::unique_ptr<BudgetMemory> (*make_budget_memory)(int device);
};

extern const CudaSide* cuda_side;

// cuda_budget.cc: memory for the budget of a GPU; what torch's allocator has made while it is in force.
std::unique_ptr<BudgetMemory> MakeCudaBudgetMemory(int device);
void NoteCudaMemory(int device, void* address, std::size_t bytes);

}  // namespace ebbtide::torch_kernels
