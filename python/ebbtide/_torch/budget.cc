#include "budget.h"

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "memory.h"

namespace ebbtide::torch_kernels {
namespace {

std::atomic<bool> is_on{false};

// A storage that autograd has saved.
struct Saved {
  enum class State { kHere, kGone, kLeaving, kArriving };  // the last two: a copy is under way, the contents are here
  c10::StorageImpl* storage = nullptr;                     // alive: whoever saved it refers to it
  std::size_t bytes = 0;
  std::size_t uses = 0;  // saved tensors on it
  void* host = nullptr;  // a copy of the contents, once it is complete
  void* target = nullptr;
  State state = State::kHere;
};

// Thread-safe. Never destroyed, as tensors outlive everything else.
class Budget {
 public:
  c10::DataPtr Allocate(c10::Allocator* before, std::size_t bytes) {
    std::unique_lock lock(mutex_);
    before_ = before;
    MakeRoom(bytes, lock);
    void* const address = before->allocate(bytes).release_context();
    Count(address, bytes);
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

  void Open(std::size_t limit) {
    const std::lock_guard lock(mutex_);
    limit_ = limit;
    ++context_;
    peak_ = live_ = here_ = 0;
    copied_out_ = copied_in_ = short_of_ = 0;
    gone_.clear();
    gone_before_.clear();
    others_ = others_before_ = 0;
    is_on = true;
    if (!copier_.joinable()) copier_ = std::thread([this] { Copy(); });
  }
  void Close() { is_on = false; }

  // 0: it is not memory of ours, and stays where it is.
  std::uint64_t Save(c10::StorageImpl* storage) {
    std::unique_lock lock(mutex_);
    if (const auto found = order_of_.find(storage); found != order_of_.end()) {
      ++saved_.at(found->second).uses;
      return found->second;
    }
    const auto size = sizes_.find(storage->mutable_data());
    if (size == sizes_.end() || size->second.context != context_) return 0;
    if (saved_.empty()) BeginIteration();
    const std::uint64_t order = next_++;
    saved_.emplace(order, Saved{.storage = storage, .bytes = size->second.bytes, .uses = 1});
    order_of_.emplace(storage, order);
    here_ += size->second.bytes;
    // What had to leave in the last iteration will have to in this one.
    if (order < gone_before_.size() && gone_before_[order]) QueueOut(order);
    return order;
  }

  // Its contents are here when this returns, and stay while somebody but those who saved it refers to it. False: there
  // is no room.
  bool Get(std::uint64_t order) {
    std::unique_lock lock(mutex_);
    Saved& saved = saved_.at(order);
    if (saved.state == Saved::State::kGone) {
      if (!Fetch(saved, lock)) return false;
      std::memcpy(saved.storage->mutable_data(), saved.host, saved.bytes);
      saved.state = Saved::State::kHere;
    }
    changed_.wait(lock, [&] { return saved.state != Saved::State::kArriving; });
    Prefetch(order);
    return true;
  }

  void Drop(std::uint64_t order) {
    std::unique_lock lock(mutex_);
    Saved& saved = saved_.at(order);
    if (--saved.uses > 0) return;
    changed_.wait(lock, [&] { return !IsMoving(saved); });
    if (saved.state == Saved::State::kHere && IsCounted(saved)) here_ -= saved.bytes;
    std::free(saved.host);
    order_of_.erase(saved.storage);
    saved_.erase(order);
  }

  void Figures(std::uint64_t* out) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t figures[] = {live_, peak_, copied_out_, copied_in_, limit_, short_of_};
    std::copy(std::begin(figures), std::end(figures), out);
  }

 private:
  struct Job {
    std::uint64_t order;
    bool out;
  };

  static void Release(void* address) { ReleaseCounted(address); }
  static bool IsMoving(const Saved& saved) {
    return saved.state == Saved::State::kLeaving || saved.state == Saved::State::kArriving;
  }

  void BeginIteration() {
    gone_before_ = std::exchange(gone_, {});
    gone_before_.resize(next_, false);
    others_before_ = std::exchange(others_, 0);
    next_ = 1;
  }

  void Count(void* address, std::size_t bytes) {
    if (!address) return;
    sizes_[address] = {bytes, context_};
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    others_ = std::max(others_, live_ - std::min(live_, here_));
  }

  // What was saved first is needed last: it leaves first.
  void MakeRoom(std::size_t bytes, std::unique_lock<std::mutex>& lock) {
    for (auto at = saved_.begin(); live_ + bytes > limit_ && at != saved_.end(); ++at) {
      Saved& saved = at->second;
      if (!CanLeave(saved)) continue;
      if (!saved.host) {
        saved.host = std::malloc(saved.bytes);
        if (!saved.host) continue;
        std::memcpy(saved.host, saved.storage->mutable_data(), saved.bytes);
        copied_out_ += saved.bytes;
      }
      if (gone_.size() <= at->first) gone_.resize(at->first + 1, false);
      gone_[at->first] = true;
      Vacate(saved);
    }
    if (live_ + bytes > limit_) {
      // What a copy is under way for can leave when it has ended.
      for (const auto& [order, saved] : saved_) {
        if (!IsMoving(saved)) continue;
        changed_.wait(lock, [&moving = saved] { return !IsMoving(moving); });
        return MakeRoom(bytes, lock);
      }
      short_of_ = std::max<std::uint64_t>(short_of_, live_ + bytes - limit_);
      TORCH_CHECK_WITH(OutOfMemoryError, false, "the budget of ", limit_, " bytes cannot be kept: ", live_,
                       " are in use by tensors that are referred to, and ", bytes, " more are asked for");
    }
  }

  // Nobody refers to it but those who saved it.
  bool CanLeave(const Saved& saved) const {
    return saved.state == Saved::State::kHere && c10::raw::intrusive_ptr::use_count(saved.storage) == saved.uses &&
           IsCounted(saved);
  }
  bool IsCounted(const Saved& saved) const {
    const auto found = sizes_.find(saved.storage->mutable_data());
    return found != sizes_.end() && found->second.context == context_;
  }

  void Vacate(Saved& saved) {
    c10::DataPtr old = saved.storage->set_data_ptr(c10::DataPtr(nullptr, c10::Device(c10::DeviceType::CPU)));
    void* const address = old.release_context();
    live_ -= saved.bytes;
    here_ -= saved.bytes;
    sizes_.erase(address);
    before_->raw_deleter()(address);
    saved.state = Saved::State::kGone;
  }

  // Memory for what is gone.
  bool Fetch(Saved& saved, std::unique_lock<std::mutex>& lock) {
    try {
      MakeRoom(saved.bytes, lock);
    } catch (const c10::OutOfMemoryError&) {
      return false;
    }
    Place(saved);
    return true;
  }
  void Place(Saved& saved) {
    void* const address = before_->allocate(saved.bytes).release_context();
    here_ += saved.bytes;
    Count(address, saved.bytes);
    copied_in_ += saved.bytes;
    saved.storage->set_data_ptr_noswap({address, address, &Release, c10::Device(c10::DeviceType::CPU)});
  }

  void QueueOut(std::uint64_t order) {
    Saved& saved = saved_.at(order);
    saved.state = Saved::State::kLeaving;
    saved.target = std::malloc(saved.bytes);
    if (!saved.target) {
      saved.state = Saved::State::kHere;
      return;
    }
    jobs_.push_back({order, true});
    changed_.notify_all();
  }

  // Those that are needed next come back while there is room for them beside what else there will be.
  void Prefetch(std::uint64_t order) {
    const std::size_t others = live_ - std::min(live_, here_);
    const std::size_t reserve = others_before_ > others ? others_before_ - others : 0;
    if (others_before_ == 0) return;
    int ahead = 0;
    for (auto at = std::make_reverse_iterator(saved_.lower_bound(order)); at != saved_.rend() && ahead < 4;
         ++at, ++ahead) {
      Saved& saved = at->second;
      if (saved.state != Saved::State::kGone) continue;
      if (live_ + saved.bytes + reserve > limit_) return;
      Place(saved);
      saved.state = Saved::State::kArriving;
      jobs_.push_back({at->first, false});
      changed_.notify_all();
    }
  }

  // The thread of copies. What it copies is not dropped, moved or freed meanwhile.
  void Copy() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !jobs_.empty(); });
      const Job job = jobs_.front();
      jobs_.pop_front();
      Saved& saved = saved_.at(job.order);
      void* const at = saved.storage->mutable_data();
      lock.unlock();
      std::memcpy(job.out ? saved.target : at, job.out ? at : saved.host, saved.bytes);
      lock.lock();
      if (job.out) {
        saved.host = std::exchange(saved.target, nullptr);
        copied_out_ += saved.bytes;
      }
      saved.state = Saved::State::kHere;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  c10::Allocator* before_ = nullptr;
  struct Counted {
    std::size_t bytes;
    std::uint64_t context;
  };
  std::unordered_map<void*, Counted> sizes_;  // of all that was made in this context and those before it
  std::uint64_t context_ = 0;                 // only what was made in the present one counts
  std::map<std::uint64_t, Saved> saved_;      // in the order in which they were saved
  std::unordered_map<c10::StorageImpl*, std::uint64_t> order_of_;
  std::uint64_t next_ = 1;
  std::vector<bool> gone_, gone_before_;  // by order: whether it had to leave in this iteration, and in the last
  std::size_t live_ = 0, peak_ = 0, here_ = 0, limit_ = SIZE_MAX;
  std::size_t others_ = 0, others_before_ = 0;  // the most that was in use beside saved storages
  std::uint64_t copied_out_ = 0, copied_in_ = 0, short_of_ = 0;
  std::deque<Job> jobs_;
  std::thread copier_;
};

Budget& TheBudget() {
  static Budget* const budget = new Budget;
  return *budget;
}

}  // namespace

bool BudgetIsOn() { return is_on.load(std::memory_order_relaxed); }
c10::DataPtr AllocateWithinBudget(c10::Allocator* before, std::size_t bytes) {
  return TheBudget().Allocate(before, bytes);
}
bool ReleaseCounted(void* address) { return TheBudget().Free(address); }

}  // namespace ebbtide::torch_kernels

#define EBBTIDE_EXPORT extern "C" __attribute__((visibility("default")))

using ebbtide::torch_kernels::TheBudget;

EBBTIDE_EXPORT void ebbtide_budget_open(std::uint64_t limit) {
  ebbtide::torch_kernels::InstallAllocator();
  TheBudget().Open(limit);
}
EBBTIDE_EXPORT void ebbtide_budget_close() { TheBudget().Close(); }
// By its tensor: asking Python for the storage would make another reference to it.
EBBTIDE_EXPORT std::uint64_t ebbtide_budget_save(void* tensor_impl) {
  return TheBudget().Save(static_cast<c10::TensorImpl*>(tensor_impl)->storage().unsafeGetStorageImpl());
}
EBBTIDE_EXPORT std::int32_t ebbtide_budget_get(std::uint64_t saved) { return TheBudget().Get(saved); }
EBBTIDE_EXPORT void ebbtide_budget_drop(std::uint64_t saved) { TheBudget().Drop(saved); }
EBBTIDE_EXPORT void ebbtide_budget_figures(std::uint64_t* out) { TheBudget().Figures(out); }
