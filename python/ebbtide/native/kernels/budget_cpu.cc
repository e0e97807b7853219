// The CPU's memory within a budget: every request is counted; copies are made by a thread of their own.
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_map>

#include "budget.h"
#include "memory.h"

#if defined(__x86_64__) && defined(__GLIBCXX__)
// The same function under the name that every libstdc++ since gcc 4.4 has: a wheel is compiled once, and loaded beside
// older ones than the compiler's own.
__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE,"
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
#endif

namespace ebbtide::torch_kernels {
namespace {

void Release(void* address) { ReleaseCounted(address); }

class Counts {
 public:
  void Open(std::size_t limit) {
    const std::lock_guard lock(mutex_);
    ++context_;
    limit_ = limit;
    live_ = peak_ = 0;
  }
  c10::DataPtr Allocate(c10::Allocator* before, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK_WITH(OutOfMemoryError, live_ <= limit_ && bytes <= limit_ - live_, "no room for ", bytes,
                     " more bytes");
    before_ = before;
    void* const address = before->allocate(bytes).release_context();
    sizes_[address] = {bytes, context_};
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    return {address, address, &Release, c10::Device(c10::DeviceType::CPU)};
  }
  bool Free(void* address) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(address);
    if (found == sizes_.end()) return false;
    if (found->second.context == context_) live_ -= found->second.bytes;
    sizes_.erase(found);
    before_->raw_deleter()(address);
    return true;
  }
  bool Has(const void* address, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(address);
    return found != sizes_.end() && found->second.context == context_ && found->second.bytes == bytes;
  }
  std::size_t Live() {
    const std::lock_guard lock(mutex_);
    return live_;
  }
  std::size_t Peak() {
    const std::lock_guard lock(mutex_);
    return peak_;
  }
  bool HasRoom(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    return live_ <= limit_ && bytes <= limit_ - live_;
  }
  void BeforeFork() { mutex_.lock(); }
  void AfterFork(bool in_child) { in_child ? void(new (&mutex_) std::mutex) : mutex_.unlock(); }

 private:
  struct Counted {
    std::size_t bytes;
    std::uint64_t context;
  };
  std::mutex mutex_;
  c10::Allocator* before_ = nullptr;
  std::unordered_map<const void*, Counted> sizes_;  // of all that was made in this context and those before it
  std::uint64_t context_ = 0;                       // only what was made in the present one counts
  std::size_t live_ = 0, peak_ = 0, limit_ = SIZE_MAX;
};

Counts& TheCounts() {
  static Counts* const counts = new Counts;  // never destroyed, as tensors outlive everything else
  return *counts;
}

struct CpuCopy final : BudgetCopy {
  struct Job {
    enum class State { kQueued, kRunning, kDone };
    void* to;
    const void* from;
    std::size_t bytes;
    State state = State::kQueued;
  };
  explicit CpuCopy(Job made) : job(std::make_shared<Job>(made)) {}
  std::shared_ptr<Job> job;
};

class CpuBudgetMemory final : public BudgetMemory {
 public:
  void Open(std::size_t limit) override {
    InstallAllocator();
    TheCounts().Open(limit);
    if (!copier_.joinable()) copier_ = std::thread([this] { Copy(); });
  }
  void Close() override {}

  c10::Allocator* TorchAllocator() override { return c10::GetCPUAllocator(); }
  std::size_t InUse() override { return TheCounts().Live(); }
  std::size_t Taken() override { return TheCounts().Live(); }
  std::size_t MostTaken() override { return TheCounts().Peak(); }
  bool HasRoom(std::size_t bytes) override { return TheCounts().HasRoom(bytes); }
  bool IsAtLimit(std::size_t bytes) override { return !TheCounts().HasRoom(bytes); }
  bool Owns(const SavedStorage& saved) override { return TheCounts().Has(saved.storage->mutable_data(), saved.bytes); }

  c10::DataPtr AllocateHost(std::size_t bytes) override {
    void* const address = std::malloc(bytes);
    if (!address) throw std::bad_alloc();
    return {address, address, &std::free, c10::Device(c10::DeviceType::CPU)};
  }
  void CopyOut(SavedStorage& saved) override { Queue(saved, saved.host.get(), saved.storage->mutable_data()); }
  void CopyIn(SavedStorage& saved) override {
    Finish(saved);
    Queue(saved, saved.storage->mutable_data(), saved.host.get());
  }
  void WaitToUse(SavedStorage& saved) override { Finish(saved); }
  void WaitToFree(SavedStorage& saved) override { Finish(saved); }

  void BeforeFork() override {
    TheCounts().BeforeFork();
    mutex_.lock();
    while (is_copying_) {  // a copy that only the parent's thread could end
      mutex_.unlock();
      std::this_thread::yield();
      mutex_.lock();
    }
  }
  // In the child the thread is not there, nor is anybody who waits for it.
  void AfterFork(bool in_child) override {
    if (in_child) {
      new (&copier_) std::thread;
      new (&changed_) std::condition_variable;
      new (&mutex_) std::mutex;
    } else {
      mutex_.unlock();
    }
    TheCounts().AfterFork(in_child);
  }

 private:
  using Job = CpuCopy::Job;

  void Queue(SavedStorage& saved, void* to, const void* from) {
    auto copy = std::make_unique<CpuCopy>(Job{to, from, saved.bytes});
    const std::lock_guard lock(mutex_);
    jobs_.push_back(copy->job);
    saved.copy = std::move(copy);
    changed_.notify_all();
  }

  // Whoever waits for a copy that nobody has begun makes it.
  void Finish(SavedStorage& saved) {
    if (!saved.copy) return;
    Job& job = *static_cast<CpuCopy&>(*saved.copy).job;
    std::unique_lock lock(mutex_);
    if (job.state == Job::State::kQueued) {
      std::erase_if(jobs_, [&](const auto& queued) { return queued.get() == &job; });
      lock.unlock();
      std::memcpy(job.to, job.from, job.bytes);
    } else {
      changed_.wait(lock, [&] { return job.state == Job::State::kDone; });
    }
    saved.copy.reset();
  }

  void Copy() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !jobs_.empty(); });
      const std::shared_ptr<Job> job = std::move(jobs_.front());
      jobs_.pop_front();
      job->state = Job::State::kRunning;
      is_copying_ = true;
      lock.unlock();
      std::memcpy(job->to, job->from, job->bytes);
      lock.lock();
      job->state = Job::State::kDone;
      is_copying_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;
  bool is_copying_ = false;  // the thread, at the moment
  std::thread copier_;
};

}  // namespace

std::unique_ptr<BudgetMemory> MakeCpuBudgetMemory() { return std::make_unique<CpuBudgetMemory>(); }

c10::DataPtr AllocateWithinBudget(c10::Allocator* before, std::size_t bytes) {
  c10::DataPtr made;
  WithinBudget(kCpu, bytes, [&] { made = TheCounts().Allocate(before, bytes); });
  return made;
}
bool ReleaseCounted(void* address) { return TheCounts().Free(address); }

}  // namespace ebbtide::torch_kernels
