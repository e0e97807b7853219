// Spans of the copy engines and the host's clock.
#include "phantom/core/clock.h"

#include <algorithm>

namespace ebbtide::phantom {

void HostClock::Reach(Nanos time) {
  Nanos now = now_.load(std::memory_order_relaxed);
  while (now < time && !now_.compare_exchange_weak(now, time, std::memory_order_acq_rel)) {
  }
}

Nanos CopyEngine::Duration(Bytes bytes) const {
  double transfer = bytes_per_second_ > 0 ? static_cast<double>(bytes) / bytes_per_second_ * 1e9 : 0;
  return latency_ + static_cast<Nanos>(transfer);
}

Nanos CopyEngine::Occupy(Nanos ready, Nanos duration, Nanos past) {
  std::lock_guard lock(mutex_);
  busy_ += duration;
  while (!spans_.empty() && spans_.begin()->second <= past) spans_.erase(spans_.begin());
  if (duration <= 0) return ready;

  Nanos begin = ready;
  auto next = spans_.upper_bound(begin);
  if (next != spans_.begin()) begin = std::max(begin, std::prev(next)->second);
  while (next != spans_.end() && next->first < begin + duration) {
    begin = std::max(begin, next->second);
    ++next;
  }
  Nanos end = begin + duration;
  if (next != spans_.end() && next->first == end) {
    end = next->second;
    spans_.erase(next);
  }
  next = spans_.upper_bound(begin);
  if (next != spans_.begin() && std::prev(next)->second == begin)
    std::prev(next)->second = end;
  else
    spans_.emplace(begin, end);
  return begin;
}

Nanos CopyEngine::busy() const {
  std::lock_guard lock(mutex_);
  return busy_;
}

}  // namespace ebbtide::phantom
