// One end for all who ask.
#include "phantom/core/pending.h"

namespace ebbtide::phantom {

void Pending::FinishOnce() {
  std::lock_guard lock(mutex_);
  if (over_.load(std::memory_order_relaxed)) return;
  end_ = Finish();
  over_.store(true, std::memory_order_release);
}

bool Pending::Try() {
  if (over_.load(std::memory_order_acquire)) return true;
  if (!OthersAreHere()) return false;
  FinishOnce();
  return true;
}

void Pending::Wait() {
  if (over_.load(std::memory_order_acquire)) return;
  WaitForOthers();
  FinishOnce();
}

}  // namespace ebbtide::phantom
