// Torch's CUDA memory while the engine runs an op on this thread: what the engine gives. At all other times, and for
// all else that is asked of an allocator, torch's own, within the budget if there is one.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <utility>

#include "cuda.h"

namespace ebbtide::torch_kernels {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;
using c10::DeviceIndex;
using c10::MempoolId_t;

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

class EngineCudaAllocator final : public caching::CUDAAllocator {
 public:
  explicit EngineCudaAllocator(caching::CUDAAllocator* before) : before_(before) {}
  caching::CUDAAllocator* before() const { return before_; }

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

  void init(int devices) override { before_->init(devices); }
  bool initialized() override { return before_->initialized(); }
  double getMemoryFraction(DeviceIndex d) override { return before_->getMemoryFraction(d); }
  void setMemoryFraction(double fraction, DeviceIndex d) override { before_->setMemoryFraction(fraction, d); }
  std::vector<caching::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex d) override {
    return before_->getExpandableSegmentSizes(d);
  }
  void enable(bool value) override { before_->enable(value); }
  bool isEnabled() const override { return before_->isEnabled(); }
  void emptyCache(MempoolId_t pool) override { before_->emptyCache(pool); }
  void cacheInfo(DeviceIndex d, size_t* largest) override { before_->cacheInfo(d, largest); }
  void* getBaseAllocation(void* address, size_t* size) override { return before_->getBaseAllocation(address, size); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex d) override { return before_->getDeviceStats(d); }
  void resetAccumulatedStats(DeviceIndex d) override { before_->resetAccumulatedStats(d); }
  void resetPeakStats(DeviceIndex d) override { before_->resetPeakStats(d); }
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex d) override { return before_->getMemoryInfo(d); }
  caching::SnapshotInfo snapshot(MempoolId_t pool, bool traces) override { return before_->snapshot(pool, traces); }
  void beginAllocateToPool(DeviceIndex d, MempoolId_t pool, std::function<bool(cudaStream_t)> filter) override {
    before_->beginAllocateToPool(d, pool, std::move(filter));
  }
  void endAllocateToPool(DeviceIndex d, MempoolId_t pool) override { before_->endAllocateToPool(d, pool); }
  void markCaptureBegin(DeviceIndex d) override { before_->markCaptureBegin(d); }
  void markCaptureEnd(DeviceIndex d) override { before_->markCaptureEnd(d); }
  void releasePool(DeviceIndex d, MempoolId_t pool) override { before_->releasePool(d, pool); }
  int getPoolUseCount(DeviceIndex d, MempoolId_t pool) override { return before_->getPoolUseCount(d, pool); }
  void createOrIncrefPool(DeviceIndex d, MempoolId_t pool, std::shared_ptr<CUDAAllocator> allocator) override {
    before_->createOrIncrefPool(d, pool, std::move(allocator));
  }
  void setUseOnOOM(DeviceIndex d, MempoolId_t pool, bool use) override { before_->setUseOnOOM(d, pool, use); }
  void setNoSplit(DeviceIndex d, MempoolId_t pool) override { before_->setNoSplit(d, pool); }
  bool checkPoolLiveAllocations(DeviceIndex d, MempoolId_t pool, const std::unordered_set<void*>& expected) override {
    return before_->checkPoolLiveAllocations(d, pool, expected);
  }
  caching::ShareableHandle shareIpcHandle(void* address) override { return before_->shareIpcHandle(address); }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override { return before_->getIpcDevPtr(std::move(handle)); }
  bool isHistoryEnabled() override { return before_->isHistoryEnabled(); }
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* address) override {
    return before_->getContextForPointer(address);
  }
  void recordHistory(bool enabled, caching::CreateContextFn recorder, size_t entries, caching::RecordContext when,
                     bool clear, const std::vector<std::string>& skip) override {
    before_->recordHistory(enabled, recorder, entries, when, clear, skip);
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& md) override {
    before_->recordAnnotation(md);
  }
  void pushCompileContext(std::string& md) override { before_->pushCompileContext(md); }
  void popCompileContext() override { before_->popCompileContext(); }
  bool supportsUserMetadata() override { return before_->supportsUserMetadata(); }
  void setUserMetadata(const std::string& metadata) override { before_->setUserMetadata(metadata); }
  std::string getUserMetadata() override { return before_->getUserMetadata(); }
  void annotateMemory(const void* address, const std::string& metadata) override {
    before_->annotateMemory(address, metadata);
  }
  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override {
    before_->attachOutOfMemoryObserver(std::move(observer));
  }
  void attachOomRejectionObserver(caching::OomRejectionObserver observer) override {
    before_->attachOomRejectionObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker) override {
    before_->attachAllocatorTraceTracker(std::move(tracker));
  }
  void enablePeerAccess(DeviceIndex d, DeviceIndex other) override { before_->enablePeerAccess(d, other); }
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream,
                          bool p2p) override {
    return before_->memcpyAsync(to, to_device, from, from_device, bytes, stream, p2p);
  }
  std::shared_ptr<caching::AllocatorState> getCheckpointState(DeviceIndex d, MempoolId_t pool) override {
    return before_->getCheckpointState(d, pool);
  }
  caching::CheckpointDelta setCheckpointPoolState(DeviceIndex d,
                                                  std::shared_ptr<caching::AllocatorState> state) override {
    return before_->setCheckpointPoolState(d, std::move(state));
  }
  c10::DataPtr allocateWithAddress(size_t bytes, void* address) override {
    return before_->allocateWithAddress(bytes, address);
  }
  std::string name() override { return before_->name(); }

 private:
  caching::CUDAAllocator* const before_;
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
