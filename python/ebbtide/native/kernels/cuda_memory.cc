// Torch's CUDA memory while the engine runs an op on this thread: what the engine gives. At all other times, and for
// all else that is asked of an allocator, torch's own, within the budget if there is one.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <utility>

#include "cuda.h"
// What torch's allocators of CUDA memory have in this version but the functions below: each passes the call on to
// `before_`. Made from torch's headers when this is compiled (torch_package.py).
#include "forwarding_allocator.h"

namespace ebbtide::torch_kernels {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

thread_local const EbbtideMemory* current = nullptr;
thread_local int64_t held = 0;

void* Give(std::size_t bytes) {
  void* const address = bytes > 0 ? current->allocate(current->context, bytes) : nullptr;
  TORCH_CHECK_WITH(OutOfMemoryError, address || bytes == 0, "the pool has no room for ", bytes, " more bytes");
  if (address) ++held;
  return address;
}

// Whether it was the engine's.
bool TakeBack(void* address) {
  if (!address || !current || !current->release(current->context, address)) return false;
  --held;
  return true;
}

// Memory that outlives the op, or is let go of by another thread, is the engine's to reuse.
void Release(void* address) { TakeBack(address); }

void* AddressOf(void* made) { return made; }
void* AddressOf(const c10::DataPtr& made) { return made.get(); }

// What `take` gets from torch's allocator.
template <class Take>
auto Within(std::size_t bytes, Take take) {
  const int device = c10::cuda::current_device();
  if (bytes == 0 || !BudgetIsInForce(device)) return take();
  decltype(take()) made{};
  WithinBudget(device, bytes, [&] {
    made = take();
    NoteCudaMemory(device, AddressOf(made), bytes);
  });
  return made;
}

class EngineCudaAllocator final : public caching::EbbtideForwardingAllocator {
 public:
  using EbbtideForwardingAllocator::EbbtideForwardingAllocator;

  c10::DataPtr allocate(std::size_t bytes) override {
    if (!current) return Within(bytes, [&] { return before_->allocate(bytes); });
    void* const address = Give(bytes);
    return {address, address, &Release, c10::Device(c10::DeviceType::CUDA, c10::cuda::current_device())};
  }
  c10::DeleterFnPtr raw_deleter() const override { return before_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { before_->copy_data(to, from, bytes); }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override { return before_->is_simple_data_ptr(data); }
  void* raw_alloc(size_t bytes) override {
    return current ? Give(bytes) : Within(bytes, [&] { return before_->raw_alloc(bytes); });
  }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    return current ? Give(bytes) : Within(bytes, [&] { return before_->raw_alloc_with_stream(bytes, stream); });
  }
  void raw_delete(void* address) override {
    if (!TakeBack(address)) before_->raw_delete(address);
  }
  void recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) override {
    if (data.get_deleter() != &Release) before_->recordStream(data, stream);
  }
};

EngineCudaAllocator* installed = nullptr;  // never freed: tensors outlive everything else

const CudaSide kSide{
    .install =
        [] {
          if (installed && caching::allocator.load() == installed) return;
          installed = new EngineCudaAllocator(caching::allocator.load());
          caching::allocator.store(installed);
        },
    .set_memory =
        [](const EbbtideMemory* memory) {
          current = memory;
          held = 0;
        },
    .held = [] { return held; },
    .allocator = []() -> c10::Allocator* { return caching::allocator.load(); },
    .stream = [](c10::Device device) -> void* { return c10::cuda::getCurrentCUDAStream(device.index()).stream(); },
    .copy =
        [](void* to, const void* from, std::size_t bytes, c10::Device device) {
          const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(device.index());
          C10_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
          stream.synchronize();
        },
    .make_budget_memory = &MakeCudaBudgetMemory,
};

[[maybe_unused]] const bool known = (cuda_side = &kSide, true);

}  // namespace
}  // namespace ebbtide::torch_kernels
