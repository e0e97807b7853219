// The allocator in front of torch's own for the CPU. It asks the engine, the budget or torch's, in this order.
#include "memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <vector>

#include "budget.h"
#include "cuda.h"

namespace ebbtide::torch_kernels {
namespace {

thread_local const EbbtideMemory* current = nullptr;
thread_local std::vector<const void*> held;  // of what `current` gave

class EngineAllocator final : public c10::Allocator {
 public:
  explicit EngineAllocator(c10::Allocator* before) : before_(before) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (!current && bytes > 0 && BudgetIsInForce(kCpu)) return AllocateWithinBudget(before_, bytes);
    if (!current) return before_->allocate(bytes);
    void* const address = bytes > 0 ? current->allocate(current->context, bytes) : nullptr;
    TORCH_CHECK_WITH(OutOfMemoryError, address || bytes == 0, "the pool has no room for ", bytes, " more bytes");
    if (address) held.push_back(address);
    return {address, address, &Release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &ReleaseOfAny; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

  c10::Allocator* before() const { return before_; }

 private:
  // Memory that outlives the op, or is let go of by another thread, is the engine's to reuse.
  static void Release(void* address) {
    if (address && current) TakeBack(address);
  }
  // Whether it was the engine's.
  static bool TakeBack(void* address) {
    if (!current->release(current->context, address)) return false;
    if (const auto found = std::ranges::find(held, address); found != held.end()) held.erase(found);
    return true;
  }
  static void ReleaseOfAny(void* address);

  c10::Allocator* const before_;
};

EngineAllocator* installed = nullptr;  // never freed: tensors outlive everything else

void EngineAllocator::ReleaseOfAny(void* address) {
  if (address && current && TakeBack(address)) return;
  if (address && ReleaseCounted(address)) return;
  installed->before()->raw_deleter()(address);
}

}  // namespace

InMemory::InMemory(const EbbtideMemory* memory, c10::Device device) : on_cuda_(device.is_cuda()) {
  on_cuda_ ? cuda_side->set_memory(memory) : void(current = memory);
  held.clear();
}
InMemory::~InMemory() { on_cuda_ ? cuda_side->set_memory(nullptr) : void(current = nullptr); }

std::size_t HeldBeside(const std::vector<const void*>& addresses) {
  return static_cast<std::size_t>(std::ranges::count_if(
      held, [&](const void* address) { return std::ranges::find(addresses, address) == addresses.end(); }));
}

void InstallAllocator() {
  if (installed) return;
  installed = new EngineAllocator(c10::GetCPUAllocator());
  c10::SetCPUAllocator(installed, /*priority=*/100);
}

}  // namespace ebbtide::torch_kernels
