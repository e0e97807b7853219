// Torch's CPU memory inside `with ebbtide.budget(...)`: counted, and kept within a limit by copying to the host what
// autograd has saved for backward and nobody else refers to. Python speaks with it through the functions at the end of
// budget.cc.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

namespace ebbtide::torch_kernels {

// Whether memory is being counted.
bool BudgetIsOn();

// Memory from `before`, counted. Raises OutOfMemoryError where the limit cannot be kept.
c10::DataPtr AllocateWithinBudget(c10::Allocator* before, std::size_t bytes);

// Frees memory that was counted. False: it was not.
bool ReleaseCounted(void* address);

}  // namespace ebbtide::torch_kernels
