// A GPU's memory within a budget. What counts is what torch's allocator has reserved, as that is what others lack: it
// may grow by the limit from Open on. Torch itself refuses what is beyond (its memory fraction); this file says
// beforehand whether it will, and copies by streams of its own. The host never waits: streams wait for events.
#include <ATen/cuda/CachingHostAllocator.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>

#include "cuda.h"

namespace ebbtide::torch_kernels {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;
using c10::cuda::CUDAStream;

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kPage = 20 * kMiB;

// Torch's allocator of pinned memory; that a copy on the stream uses a piece of it.
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 8
c10::Allocator* PinnedAllocator() { return at::getHostAllocator(at::kCUDA); }
void UsePinned(const c10::DataPtr& host, const CUDAStream& stream) {
  at::getHostAllocator(at::kCUDA)->record_event(host.get(), host.get_context(), stream);
}
#else
c10::Allocator* PinnedAllocator() { return at::cuda::getCachingHostAllocator(); }
void UsePinned(const c10::DataPtr& host, const CUDAStream& stream) {
  at::cuda::CachingHostAllocator_recordEvent(host.get(), host.get_context(), stream);
}
#endif

std::size_t RoundUp(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// What torch asks the device for when it has nothing that fits.
std::size_t Segment(std::size_t bytes) {
  if (bytes <= kMiB) return 2 * kMiB;
  return bytes < 10 * kMiB ? kPage : RoundUp(bytes, 2 * kMiB);
}

// An event of the device that is current when it is made.
class Event {
 public:
  Event() { C10_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void Record(const CUDAStream& stream) { C10_CUDA_CHECK(cudaEventRecord(event_, stream)); }
  // What is queued in the stream from now on waits for what was recorded.
  void Block(const CUDAStream& stream) const { C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0)); }

 private:
  cudaEvent_t event_ = nullptr;
};

struct CudaCopy final : BudgetCopy {
  Event done;
};
Event& Done(SavedStorage& saved) { return static_cast<CudaCopy&>(*saved.copy).done; }

class CudaBudgetMemory final : public BudgetMemory {
 public:
  explicit CudaBudgetMemory(int device)
      : device_(static_cast<c10::DeviceIndex>(device)),
        out_(c10::cuda::getStreamFromPool(false, device_)),
        in_(c10::cuda::getStreamFromPool(false, device_)) {}

  void Open(std::size_t limit) override {
    const std::string name = caching::get()->name();
    TORCH_CHECK(name == "native", "the budget of a GPU: expected torch's native allocator, found ", name);
    cuda_side->install();
    const c10::cuda::CUDAGuard guard(device_);
    caching::emptyCache();
    std::size_t unused = 0, total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&unused, &total));
    const Stats now = Now();
    {
      const std::lock_guard lock(mutex_);
      blocks_.clear();
    }
    reserved_before_ = most_reserved_ = now.reserved;
    allocated_before_ = now.allocated;
    // Where segments can grow, torch looks at what is asked for and then takes whole pages.
    const std::size_t excess = caching::CUDAAllocatorConfig::expandable_segments() ? kPage - 2 * kMiB : 0;
    most_allowed_ = now.reserved + std::min(limit, SIZE_MAX / 2) - std::min(limit, excess);
    fraction_before_ = caching::getMemoryFraction(device_);
    // Half a byte more, as torch rounds its product with the total down.
    const double fraction = (static_cast<double>(most_allowed_) + 0.5) / static_cast<double>(total);
    caching::setMemoryFraction(std::min(fraction, fraction_before_), device_);
  }
  void Close() override {
    caching::setMemoryFraction(fraction_before_, device_);
    most_allowed_ = SIZE_MAX;
  }

  c10::Allocator* TorchAllocator() override { return caching::get(); }
  std::size_t InUse() override { return Beyond(Now().allocated, allocated_before_); }
  std::size_t Taken() override { return Beyond(Now().reserved, reserved_before_); }
  std::size_t MostTaken() override { return Beyond(most_reserved_, reserved_before_); }

  bool HasRoom(std::size_t bytes) override {
    const Stats now = Now();
    if (now.reserved + Segment(bytes) <= most_allowed_) return true;
    std::size_t largest = 1;  // 0 would have it ask the device
    caching::cacheInfo(device_, &largest);
    if (largest >= RoundUp(bytes, 512)) return true;
    // Segments without a tensor can go back to the device.
    return now.active + now.split + Segment(bytes) <= most_allowed_;
  }
  bool IsAtLimit(std::size_t bytes) override { return Now().reserved + Segment(bytes) > most_allowed_; }

  void Made(void* address, std::size_t bytes) {
    const std::size_t reserved = Now().reserved;
    const std::lock_guard lock(mutex_);
    blocks_.insert_or_assign(address, Block{bytes, c10::cuda::getCurrentCUDAStream(device_)});
    most_reserved_ = std::max<std::size_t>(most_reserved_, reserved);
  }
  bool Owns(const SavedStorage& saved) override {
    const auto block = Find(saved);
    return block && block->bytes == saved.bytes &&
           saved.storage->data_ptr().get_deleter() == caching::get()->raw_deleter();
  }

  // Pinned; where there is none, any: the driver then copies through its own.
  c10::DataPtr AllocateHost(std::size_t bytes) override {
    try {
      return PinnedAllocator()->allocate(bytes);
    } catch (const c10::Error&) {
      (void)cudaGetLastError();
    }
    void* const address = std::malloc(bytes);
    if (!address) throw std::bad_alloc();
    return {address, address, &std::free, c10::Device(c10::DeviceType::CPU)};
  }
  void CopyOut(SavedStorage& saved) override {
    Copy(saved, out_, CUDAStream(saved.stream), saved.host.get(), saved.storage->mutable_data());
  }
  void CopyIn(SavedStorage& saved) override {
    Made(saved.storage->mutable_data(), saved.bytes);  // after Close, nobody else has said so
    Copy(saved, in_, c10::cuda::getCurrentCUDAStream(device_), saved.storage->mutable_data(), saved.host.get());
  }
  void WaitToUse(SavedStorage& saved) override {
    const CUDAStream current = c10::cuda::getCurrentCUDAStream(device_);
    if (saved.copy) Done(saved).Block(current);
    caching::recordStream(saved.storage->data_ptr(), current);
  }
  // Torch gives a block to its own stream again without waiting.
  void WaitToFree(SavedStorage& saved) override {
    if (const auto block = Find(saved); block && saved.copy) Done(saved).Block(block->stream);
  }

 private:
  struct Stats {
    std::size_t reserved, allocated, active, split;
  };
  struct Block {
    std::size_t bytes;
    CUDAStream stream;
  };

  static std::size_t Beyond(std::size_t now, std::size_t before) { return now > before ? now - before : 0; }

  Stats Now() const {
    const auto stats = caching::getDeviceStats(device_);
    const auto current = [](const auto& stat) { return static_cast<std::size_t>(stat[0].current); };
    return {current(stats.reserved_bytes), current(stats.allocated_bytes), current(stats.active_bytes),
            current(stats.inactive_split_bytes)};
  }

  std::optional<Block> Find(const SavedStorage& saved) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(saved.storage->data_ptr().get());
    return found == blocks_.end() ? std::nullopt : std::optional(found->second);
  }

  // In `stream`, behind what `after` has to do by now and the copy before it.
  void Copy(SavedStorage& saved, const CUDAStream& stream, const CUDAStream& after, void* to, const void* from) {
    const c10::cuda::CUDAGuard guard(device_);
    Event ready;
    ready.Record(after);
    ready.Block(stream);
    if (saved.copy) Done(saved).Block(stream);
    C10_CUDA_CHECK(cudaMemcpyAsync(to, from, saved.bytes, cudaMemcpyDefault, stream));
    auto copy = std::make_unique<CudaCopy>();
    copy->done.Record(stream);
    saved.copy = std::move(copy);
    UsePinned(saved.host, stream);
  }

  const c10::DeviceIndex device_;
  const CUDAStream out_, in_;
  double fraction_before_ = 1;
  std::atomic<std::size_t> reserved_before_ = 0, most_reserved_ = 0, allocated_before_ = 0, most_allowed_ = SIZE_MAX;
  std::mutex mutex_;
  std::unordered_map<const void*, Block> blocks_;  // of torch's: those made since Open, also such that are free by now
};

std::array<std::atomic<CudaBudgetMemory*>, C10_COMPILE_TIME_MAX_GPUS> memories{};

}  // namespace

std::unique_ptr<BudgetMemory> MakeCudaBudgetMemory(int device) {
  auto made = std::make_unique<CudaBudgetMemory>(device);
  memories.at(device) = made.get();
  return made;
}

void NoteCudaMemory(int device, void* address, std::size_t bytes) { memories[device].load()->Made(address, bytes); }

}  // namespace ebbtide::torch_kernels
