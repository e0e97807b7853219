// Decides which saved storages leave a device that is short of memory and when they come back, and exports that to
// Python as functions of C.
#include "budget.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda.h"

namespace ebbtide::torch_kernels {
namespace {

constexpr int kAhead = 4;  // storages that come back before they are asked for

// Thread-safe. Never destroyed, as tensors outlive everything else.
class Budget {
 public:
  explicit Budget(std::unique_ptr<BudgetMemory> memory) : memory_(std::move(memory)) {}

  void Open(std::size_t limit) {
    const std::lock_guard lock(mutex_);
    memory_->Open(limit);
    limit_ = limit;
    here_ = copied_out_ = copied_in_ = short_of_ = 0;
    gone_.clear();
    gone_before_.clear();
    others_ = others_before_ = 0;
  }
  void Close() {
    const std::lock_guard lock(mutex_);
    memory_->Close();
  }

  void Within(std::size_t bytes, const std::function<void()>& take) {
    BeginCopiesOut();
    for (bool has_waited = false;;) {
      if (!memory_->HasRoom(bytes)) MakeRoom(bytes);
      try {
        take();
        break;
      } catch (const c10::OutOfMemoryError&) {
        // Torch has waited for what other streams had in use, and has not looked at it again.
        if (MakeRoom(bytes) || !std::exchange(has_waited, true)) continue;
        if (!memory_->IsAtLimit(bytes)) throw;
      }
      const std::lock_guard lock(mutex_);
      const std::size_t used = memory_->InUse();
      const std::size_t lacking = used + bytes > limit_ ? used + bytes - limit_ : bytes;
      if (!is_prefetching_) short_of_ = std::max<std::uint64_t>(short_of_, lacking);
      TORCH_CHECK_WITH(OutOfMemoryError, false, "the budget of ", limit_, " bytes cannot be kept: ", used,
                       " are in use by tensors that are referred to, ", memory_->Taken(), " are taken, and ", bytes,
                       " more are asked for");
    }
    const std::lock_guard lock(mutex_);
    others_ = std::max(others_, Others());
  }

  // 0: it is not memory of ours, and stays where it is.
  std::uint64_t Save(const c10::TensorImpl& tensor) {
    const std::lock_guard lock(mutex_);
    c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
    const c10::Device device = storage->device();
    const c10::Stream now = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    if (const auto found = order_of_.find(storage); found != order_of_.end()) {
      SavedStorage& saved = saved_.at(found->second);
      ++saved.uses;
      saved.versions.push_back(tensor.version_counter());
      // Who saves it anew has had it meanwhile, and may have changed it.
      Forget(saved);
      saved.stream = now;
      return found->second;
    }
    SavedStorage saved{storage, storage->nbytes(), now};
    if (!memory_->Owns(saved)) return 0;
    saved.owner = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);
    saved.versions.push_back(tensor.version_counter());
    if (saved_.empty()) BeginIteration();
    const std::uint64_t order = next_++;
    here_ += saved.bytes;
    // What had to leave in the last iteration will have to in this one.
    if (order < gone_before_.size() && gone_before_[order]) leaving_.push_back(order);
    saved_.emplace(order, std::move(saved));
    order_of_.emplace(storage, order);
    return order;
  }

  // Its contents are here for what the caller does next, and stay while the caller refers to it, as it does already.
  // Raises OutOfMemoryError where there is no room.
  void Get(std::uint64_t order) {
    const std::lock_guard lock(mutex_);
    SavedStorage& saved = saved_.at(order);
    const c10::DeviceGuard guard(saved.storage->device());
    BeginCopiesOut();
    if (!saved.is_here) Bring(saved);
    memory_->WaitToUse(saved);
    Prefetch(order);
  }

  void Drop(std::uint64_t order) {
    const std::lock_guard lock(mutex_);
    if (--saved_.at(order).uses > 0) return;
    const auto node = saved_.extract(order);
    SavedStorage& saved = node.mapped();
    order_of_.erase(saved.storage);
    if (saved.is_here && memory_->Owns(saved)) here_ -= std::min(here_, saved.bytes);
    memory_->WaitToFree(saved);
  }

  // Around a fork: see BudgetMemory. In the child nobody holds the mutex, whoever did in the parent.
  void BeforeFork() {
    mutex_.lock();
    memory_->BeforeFork();
  }
  void AfterFork(bool in_child) {
    memory_->AfterFork(in_child);
    in_child ? void(new (&mutex_) std::recursive_mutex) : mutex_.unlock();
  }

  void Figures(std::uint64_t* out) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t figures[] = {memory_->Taken(), memory_->MostTaken(), copied_out_, copied_in_, limit_,
                                     short_of_};
    std::copy(std::begin(figures), std::end(figures), out);
  }

 private:
  void BeginIteration() {
    gone_before_ = std::exchange(gone_, {});
    gone_before_.resize(next_, false);
    others_before_ = std::exchange(others_, 0);
    leaving_.clear();
    next_ = 1;
  }

  // In use beside what is saved.
  std::size_t Others() {
    const std::size_t used = memory_->InUse();
    return used - std::min(used, here_);
  }

  // What was saved first is needed last: it leaves first. At least one leaves, if any can. Whether one has.
  bool MakeRoom(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    bool any = false;
    if (is_prefetching_) return any;
    for (auto& [order, saved] : saved_) {
      if (any && memory_->HasRoom(bytes)) break;
      if (!CanLeave(saved)) continue;
      if (saved.host && saved.host_version != VersionOf(saved)) Forget(saved);
      if (!saved.host && !BeginCopyOut(saved)) continue;
      if (gone_.size() <= order) gone_.resize(order + 1, false);
      gone_[order] = any = true;
      memory_->WaitToFree(saved);
      saved.storage->set_data_ptr_noswap(c10::DataPtr(nullptr, saved.storage->device()));
      saved.is_here = false;
      here_ -= std::min(here_, saved.bytes);
    }
    return any;
  }

  // Nobody refers to it but those who saved it.
  bool CanLeave(const SavedStorage& saved) {
    return saved.is_here && c10::raw::intrusive_ptr::use_count(saved.storage) == saved.uses + 1 && memory_->Owns(saved);
  }

  // Whoever refers to a storage may change it: a copy of it is begun when nobody does but those who saved it.
  void BeginCopiesOut() {
    const std::lock_guard lock(mutex_);
    std::erase_if(leaving_, [&](std::uint64_t order) {
      const auto found = saved_.find(order);
      if (found == saved_.end() || !found->second.is_here || found->second.host) return true;
      if (!CanLeave(found->second)) return false;
      BeginCopyOut(found->second);
      return true;
    });
  }

  // Changes in place through any of the tensors that were saved, as a number that only grows.
  static std::uint64_t VersionOf(const SavedStorage& saved) {
    std::uint64_t sum = 0;
    for (const c10::VariableVersion& version : saved.versions) sum += version.enabled() ? version.current_version() : 0;
    return sum;
  }

  // Its copy on the host is not what it holds. Only while it is here.
  void Forget(SavedStorage& saved) {
    if (!saved.host || !saved.is_here) return;
    memory_->WaitToFree(saved);
    saved.host.clear();
  }

  bool BeginCopyOut(SavedStorage& saved) {
    try {
      saved.host_version = VersionOf(saved);
      saved.host = memory_->AllocateHost(saved.bytes);
      memory_->CopyOut(saved);
    } catch (const std::exception&) {  // it stays
      saved.host.clear();
      return false;
    }
    copied_out_ += saved.bytes;
    return true;
  }

  void Bring(SavedStorage& saved) {
    saved.storage->set_data_ptr_noswap(memory_->TorchAllocator()->allocate(saved.bytes));
    memory_->CopyIn(saved);
    saved.is_here = true;
    if (memory_->Owns(saved)) here_ += saved.bytes;
    copied_in_ += saved.bytes;
  }

  // Those that are needed next come back while there is room for them beside what else there will be.
  void Prefetch(std::uint64_t order) {
    if (others_before_ == 0) return;
    is_prefetching_ = true;
    const auto end = c10::make_scope_exit([&] { is_prefetching_ = false; });
    const std::size_t others = Others();
    const std::size_t reserve = others_before_ > others ? others_before_ - others : 0;
    auto at = std::make_reverse_iterator(saved_.lower_bound(order));
    for (int ahead = 0; at != saved_.rend() && ahead < kAhead; ++at, ++ahead) {
      SavedStorage& saved = at->second;
      if (saved.is_here) continue;
      if (memory_->InUse() + saved.bytes + reserve > limit_ || !memory_->HasRoom(saved.bytes)) return;
      try {
        Bring(saved);
      } catch (const c10::OutOfMemoryError&) {
        return;
      }
    }
  }

  std::recursive_mutex mutex_;  // what comes back is allocated as all else is, and may send others away
  const std::unique_ptr<BudgetMemory> memory_;
  std::map<std::uint64_t, SavedStorage> saved_;  // in the order in which they were saved
  std::unordered_map<c10::StorageImpl*, std::uint64_t> order_of_;
  std::uint64_t next_ = 1;
  bool is_prefetching_ = false;           // by the thread that has the mutex: nobody leaves for that
  std::vector<std::uint64_t> leaving_;    // those that are to be copied out
  std::vector<bool> gone_, gone_before_;  // by order: whether it had to leave in this iteration, and in the last
  std::size_t here_ = 0, limit_ = SIZE_MAX;
  std::size_t others_ = 0, others_before_ = 0;  // the most that was in use beside saved storages
  std::uint64_t copied_out_ = 0, copied_in_ = 0, short_of_ = 0;
};

constexpr int kDevices = 65;
std::array<std::atomic<Budget*>, kDevices> budgets{}, in_force{};  // the CPU first

thread_local std::string last_error;

// A budget is of the process that opened it: children by fork, as the workers of a DataLoader, have none.
void BeforeFork() {
  for (const auto& budget : budgets) {
    if (Budget* const found = budget.load()) found->BeforeFork();
  }
}
void AfterFork(bool in_child) {
  for (std::size_t i = budgets.size(); i-- > 0;) {
    if (Budget* const found = budgets[i].load()) found->AfterFork(in_child);
    if (in_child) in_force[i] = nullptr;
  }
}
void InParent() { AfterFork(false); }
void InChild() { AfterFork(true); }

// 0: done; 1: no room; 2: an error. Nothing may be raised through Python's calls of C.
template <class Function>
std::int32_t Status(Function&& function) {
  try {
    function();
    return 0;
  } catch (const c10::OutOfMemoryError& error) {
    last_error = error.what_without_backtrace();
    return 1;
  } catch (const c10::Error& error) {
    last_error = error.what_without_backtrace();
  } catch (const std::exception& error) {
    last_error = error.what();
  }
  return 2;
}

}  // namespace

bool BudgetIsInForce(int device) { return in_force[device + 1].load(std::memory_order_relaxed) != nullptr; }

void WithinBudget(int device, std::size_t bytes, const std::function<void()>& take) {
  budgets[device + 1].load()->Within(bytes, take);
}

}  // namespace ebbtide::torch_kernels

#define EBBTIDE_EXPORT extern "C" __attribute__((visibility("default")))

using namespace ebbtide::torch_kernels;

// Below, a function that returns an int32 gives a Status.
EBBTIDE_EXPORT const char* ebbtide_budget_error() { return last_error.c_str(); }

EBBTIDE_EXPORT std::int32_t ebbtide_budget_open(std::int32_t device, std::uint64_t limit, void** budget) {
  return Status([&] {
    TORCH_CHECK(device >= kCpu && device + 1 < kDevices, "device ", device, ": expected the CPU or a GPU");
    TORCH_CHECK(device == kCpu || cuda_side, "this library is for the cpu; expected the one for cuda");
    Budget* found = budgets[device + 1].load();
    if (!found) {
      static const int registered = pthread_atfork(&BeforeFork, &InParent, &InChild);
      TORCH_CHECK(registered == 0, "the process has no memory for a function to call at a fork");
      found = new Budget(device == kCpu ? MakeCpuBudgetMemory() : cuda_side->make_budget_memory(device));
      budgets[device + 1] = found;
    }
    found->Open(limit);
    *budget = in_force[device + 1] = found;
  });
}
EBBTIDE_EXPORT std::int32_t ebbtide_budget_close(std::int32_t device) {
  return Status([&] {
    if (Budget* const found = in_force[device + 1].exchange(nullptr)) found->Close();
  });
}
// By its tensor: asking Python for the storage would make another reference to it.
EBBTIDE_EXPORT std::uint64_t ebbtide_budget_save(void* budget, void* tensor_impl) {
  std::uint64_t order = 0;
  Status([&] {
    auto* const tensor = static_cast<c10::TensorImpl*>(tensor_impl);
    order = static_cast<Budget*>(budget)->Save(*tensor);
  });
  return order;
}
EBBTIDE_EXPORT std::int32_t ebbtide_budget_get(void* budget, std::uint64_t saved) {
  return Status([&] { static_cast<Budget*>(budget)->Get(saved); });
}
EBBTIDE_EXPORT void ebbtide_budget_drop(void* budget, std::uint64_t saved) {
  Status([&] { static_cast<Budget*>(budget)->Drop(saved); });
}
EBBTIDE_EXPORT std::int32_t ebbtide_budget_figures(void* budget, std::uint64_t* out) {
  return Status([&] { static_cast<Budget*>(budget)->Figures(out); });
}
