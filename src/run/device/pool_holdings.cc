// An ordered map of what is held, by whom, behind a lock.
#include "run/device/pool_holdings.h"

#include <algorithm>
#include <iterator>

namespace ebbtide::run {

int PoolHoldings::Join() {
  const std::lock_guard lock(mutex_);
  by_.push_back(0);
  return static_cast<int>(by_.size()) - 1;
}

Status PoolHoldings::Hold(int who, Bytes address, Bytes bytes) {
  if (bytes <= 0) return {};
  const std::lock_guard lock(mutex_);
  auto next = holdings_.lower_bound(address);
  const bool before = next != holdings_.begin() && std::prev(next)->second.end > address;
  if (before || (next != holdings_.end() && next->first < address + bytes)) {
    const auto& [begin, other] = before ? *std::prev(next) : *next;
    return Fail("{} bytes at {} of the pool: {} bytes at {} are held by {}", bytes, address, other.end - begin, begin,
                other.who == who ? "the same step" : "another step");
  }
  holdings_.emplace_hint(next, address, Holding{address + bytes, who});
  by_[static_cast<std::size_t>(who)] += bytes;
  held_ += bytes;
  peak_ = std::max(peak_, held_);
  return {};
}

void PoolHoldings::LetGo(int who, Bytes address) {
  const std::lock_guard lock(mutex_);
  const auto found = holdings_.find(address);
  if (found == holdings_.end() || found->second.who != who) return;
  by_[static_cast<std::size_t>(who)] -= found->second.end - address;
  held_ -= found->second.end - address;
  holdings_.erase(found);
}

void PoolHoldings::LetGoAll(int who) {
  const std::lock_guard lock(mutex_);
  std::erase_if(holdings_, [&](const auto& holding) { return holding.second.who == who; });
  held_ -= by_[static_cast<std::size_t>(who)];
  by_[static_cast<std::size_t>(who)] = 0;
}

Bytes PoolHoldings::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

Bytes PoolHoldings::held_by(int who) const {
  const std::lock_guard lock(mutex_);
  return by_[static_cast<std::size_t>(who)];
}

Bytes PoolHoldings::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

void PoolHoldings::ResetPeak() {
  const std::lock_guard lock(mutex_);
  peak_ = held_;
}

}  // namespace ebbtide::run
