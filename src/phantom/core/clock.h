// The virtual clock: when operations would begin and end on the device of the profile. All times are settled when an
// operation is submitted, so that they depend on the program alone and not on this machine.
#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "base/units.h"

namespace ebbtide::phantom {

// What the host knows to have passed. It moves when the host waits for the device; the host's own work takes no time.
class HostClock {
 public:
  Nanos now() const { return now_.load(std::memory_order_acquire); }
  void Reach(Nanos time);

 private:
  std::atomic<Nanos> now_{0};
};

// A unit that does one copy at a time: copies take the earliest free span after they are ready, in whatever order they
// were submitted.
class CopyEngine {
 public:
  CopyEngine(double bytes_per_second, Nanos latency) : bytes_per_second_(bytes_per_second), latency_(latency) {}

  Nanos Duration(Bytes bytes) const;
  // Takes the earliest free span of `duration` that begins at `ready` or later, and returns its begin. The caller
  // promises that nothing will ever be ready before `past`, so that spans before it are forgotten.
  Nanos Occupy(Nanos ready, Nanos duration, Nanos past);
  Nanos busy() const;  // the sum of all spans

 private:
  const double bytes_per_second_;
  const Nanos latency_;
  mutable std::mutex mutex_;
  std::map<Nanos, Nanos> spans_;  // begin -> end, disjoint, touching ones joined
  Nanos busy_ = 0;
};

}  // namespace ebbtide::phantom
