// An operation whose end others decide: a collective, which is over when the other ranks have come to it. It is
// submitted without a wait; whatever follows it in its stream, or waits for it, waits for the others first.
#pragma once

#include <atomic>
#include <mutex>

#include "base/units.h"

namespace ebbtide::phantom {

// Thread-safe.
class Pending {
 public:
  virtual ~Pending() = default;

  // Whether it is over. Never waits for others.
  bool Try();
  // Returns when it is over. A wait that can never end ends the process instead.
  void Wait();
  // On the virtual clock; once it is over.
  Nanos end() const { return end_; }

 protected:
  virtual bool OthersAreHere() = 0;
  virtual void WaitForOthers() = 0;
  // Called once, when the others are here. Gives the virtual end.
  virtual Nanos Finish() = 0;

 private:
  void FinishOnce();

  std::mutex mutex_;
  std::atomic<bool> over_{false};
  Nanos end_ = 0;
};

}  // namespace ebbtide::phantom
