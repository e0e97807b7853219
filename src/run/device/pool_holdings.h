// Who holds which bytes of a pool that several steps share: counts them, and refuses what another one holds. Nothing is
// decided here; a scheduler that gives the same memory to two is found out before it does harm.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide::run {

// Thread-safe.
class PoolHoldings {
 public:
  // Returns a number for somebody who will hold memory.
  int Join();
  // Fails where somebody holds a part of [address, address + bytes).
  Status Hold(int who, Bytes address, Bytes bytes);
  // Lets go of what a call of Hold with the same address has held.
  void LetGo(int who, Bytes address);
  // Lets go of all that `who` holds.
  void LetGoAll(int who);

  Bytes held() const;
  Bytes held_by(int who) const;
  Bytes peak() const;  // the most that was held at once
  void ResetPeak();

 private:
  struct Holding {
    Bytes end = 0;
    int who = 0;
  };
  mutable std::mutex mutex_;
  std::map<Bytes, Holding> holdings_;  // by begin; they do not overlap
  std::vector<Bytes> by_;              // by holder
  Bytes held_ = 0, peak_ = 0;
};

}  // namespace ebbtide::run
