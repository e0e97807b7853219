// `with ebbtide.budget(...)`: torch's memory on a device, kept within a limit by copying to the host what autograd has
// saved for backward and nobody else refers to. Who leaves and who comes back is the same for every device (budget.cc);
// how memory is counted and copied is a BudgetMemory's (budget_cpu.cc, cuda_budget.cc).
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/Stream.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace ebbtide::torch_kernels {

constexpr int kCpu = -1;  // devices are this, or the number of a GPU

// A copy that may be under way.
struct BudgetCopy {
  virtual ~BudgetCopy() = default;
};

// A storage that autograd has saved.
struct SavedStorage {
  c10::StorageImpl* storage;  // alive: `owner` refers to it
  std::size_t bytes;
  c10::Stream stream;    // in its order, the contents are complete
  std::size_t uses = 1;  // saved tensors on it
  c10::intrusive_ptr<c10::StorageImpl> owner{};
  // The counters of changes in place of the tensors that were saved on it.
  std::vector<c10::VariableVersion> versions{};
  bool is_here = true;
  c10::DataPtr host;                 // a copy of the contents as of `host_version`, or null
  std::uint64_t host_version = 0;    // the sum of the counters when it was begun
  std::unique_ptr<BudgetCopy> copy;  // the last, either way
};

// The memory that a budget is of. Thread-safe but for the copies of one storage.
class BudgetMemory {
 public:
  virtual ~BudgetMemory() = default;
  virtual void Open(std::size_t limit) = 0;
  virtual void Close() = 0;

  // Torch's allocator of the device, which keeps the budget.
  virtual c10::Allocator* TorchAllocator() = 0;
  // Bytes of tensors that were made since Open.
  virtual std::size_t InUse() = 0;
  // What counts against the limit: now, and the most at once since Open.
  virtual std::size_t Taken() = 0;
  virtual std::size_t MostTaken() = 0;
  // Whether a request of that size is expected to be met.
  virtual bool HasRoom(std::size_t bytes) = 0;
  // Whether it is the limit, and not the device, that a request cannot be met for.
  virtual bool IsAtLimit(std::size_t bytes) = 0;
  // Whether the memory of the storage was made since Open, and is as large as when it was saved.
  virtual bool Owns(const SavedStorage& saved) = 0;

  virtual c10::DataPtr AllocateHost(std::size_t bytes) = 0;
  // Begins a copy between `host` and the storage, behind the one before it.
  virtual void CopyOut(SavedStorage& saved) = 0;
  virtual void CopyIn(SavedStorage& saved) = 0;
  // Has what the caller does with the storage next, or whoever gets its memory next, come after the last copy.
  virtual void WaitToUse(SavedStorage& saved) = 0;
  virtual void WaitToFree(SavedStorage& saved) = 0;

  // Around a fork of the process, from the thread that forks: no other is within this memory meanwhile. The child has
  // that thread alone.
  virtual void BeforeFork() {}
  virtual void AfterFork(bool /*in_child*/) {}
};
std::unique_ptr<BudgetMemory> MakeCpuBudgetMemory();

bool BudgetIsInForce(int device);

// Calls `take`, which allocates that many bytes or raises OutOfMemoryError, as often as it takes to make room for it.
// Raises OutOfMemoryError where the limit cannot be kept.
void WithinBudget(int device, std::size_t bytes, const std::function<void()>& take);

// Memory of the CPU from `before`, counted and within the budget.
c10::DataPtr AllocateWithinBudget(c10::Allocator* before, std::size_t bytes);
// Frees memory of the CPU that was counted. False: it was not.
bool ReleaseCounted(void* address);

}  // namespace ebbtide::torch_kernels
