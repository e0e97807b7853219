// Rolls preferences out into a schedule: what is fetched ahead, what is copied out in time, and what is given up when
// memory is short.
#include "plan/search/rollout.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace ebbtide::plan {

namespace {

// Shifts between classes of storages in the order in which they are given up, in doublings of cost.
constexpr float kRecomputeFirst = 30;

// The logarithm to base 2 of a value above 0, within 0.00015 and the same on every machine: the exponent, and for the
// rest x of the mantissa 1 + x a polynomial that is right where x is 0 or 1.
float Log2(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto exponent = static_cast<float>(static_cast<int>(bits >> 23) - 127);
  const float x = std::bit_cast<float>((bits & 0x7fffffU) | 0x3f800000U) - 1;
  return exponent + x + x * (1 - x) * (0.43807325f + x * (-0.23669342f + x * 0.0803073f));
}
float Log2(Nanos time) { return Log2(static_cast<float>(std::max<Nanos>(time, 1))); }

}  // namespace

Preferences Neutral(const sim::Workload& workload) {
  return {.choice = IdVector<StorageId, Choice>(workload.storages(), Choice::kKeep),
          .weight = IdVector<StorageId, float>(workload.storages(), 0.0f)};
}

Rollout::Rollout(const Problem& problem, const Preferences& preferences, bool record)
    : Driver(problem, record),
      preferences_(preferences),
      last_used_(workload_.storages(), 0),
      idle_place_(workload_.storages(), kNotIdle),
      is_leaving_(workload_.storages(), false),
      missing_from_(workload_.storages()),
      gone_(problem),
      owing_(workload_.ops(), 0) {
  if (problem.limits.may_swap) forecast_ = Forecast(problem.live);
}

void Rollout::BeforeOp(OpId /*op*/) {
  if (!problem_.limits.may_swap) return;
  if (!preferences_.nothing_again) Prefetch();
  BeginCopies();
}

// ---- What is where

void Rollout::BecomeIdle(StorageId s) {
  const bool can_leave =
      CanRemake(s) || (problem_.limits.may_swap && !workload_.IsState(s)) || IsMovableState(problem_, s);
  if (!can_leave || workload_.bytes[s] == 0) return;
  last_used_[s] = machine_.now();
  idle_place_[s] = static_cast<std::uint32_t>(idle_.size());
  idle_.push_back(s);
  if (!problem_.limits.may_swap || preferences_.choice[s] != Choice::kSwap || machine_.OnHost(s)) return;
  if (NextUse(s) != problem_.longest_gap[s]) return;
  may_leave_.emplace_back(problem_.value[s] + preferences_.weight[s], s);
  std::ranges::push_heap(may_leave_);
}

void Rollout::EndIdle(StorageId s) {
  const std::uint32_t place = idle_place_[s];
  if (place == kNotIdle) return;
  idle_[place] = idle_.back();
  idle_place_[idle_[place]] = place;
  idle_.pop_back();
  idle_place_[s] = kNotIdle;
}

void Rollout::BecomeGone(StorageId s) {
  gone_.Add(s);
  // One run makes again all that an op makes.
  if (NextUse(s).valid() && owing_[workload_.born[s]]++ == 0) owed_ += workload_.time[workload_.born[s]];
}

void Rollout::EndGone(StorageId s) {
  gone_.Remove(s);
  if (NextUse(s).valid() && --owing_[workload_.born[s]] == 0) owed_ -= workload_.time[workload_.born[s]];
}

void Rollout::ComeBack(StorageId s) {
  if (!missing_from_[s].valid()) return;
  forecast_.Add(missing_from_[s], -workload_.bytes[s]);
  missing_from_[s] = OpId();
}

// ---- Copies

// Copies come back as soon as there is room for them until they are needed, the soonest needed first.
void Rollout::Prefetch() {
  while (!away_.empty()) {
    const auto [next_use, s] = away_.front();
    if (!machine_.OnHost(s) || machine_.OnDevice(s) || NextUse(s) != next_use) {
      std::ranges::pop_heap(away_, std::greater<>());
      away_.pop_back();
      continue;
    }
    const Bytes growth = forecast_.Most(next_op_, std::max(next_use, next_op_.Next())) - problem_.before[next_op_];
    if (machine_.used() + workload_.bytes[s] + std::max<Bytes>(growth, 0) > problem_.limits.budget) return;
    BringBack(s);
  }
}

// Keeps the stream to the host busy with what is dearest to make again.
void Rollout::BeginCopies() {
  if (machine_.steps() == 0) return;
  const Nanos until = machine_.now() + workload_.time[next_op_];
  while (machine_.out_free() < until && !may_leave_.empty()) {
    const StorageId s = may_leave_.front().second;
    std::ranges::pop_heap(may_leave_);
    may_leave_.pop_back();
    const Bytes bytes = workload_.bytes[s];
    if (idle_place_[s] == kNotIdle || machine_.OnHost(s) || NextUse(s) != problem_.longest_gap[s]) continue;
    if (machine_.host_used() + bytes > problem_.limits.host) continue;
    const Nanos distance = problem_.clock[NextUse(s)] - problem_.clock[next_op_];
    if (distance < problem_.link.TimeOut(bytes) + problem_.link.TimeIn(bytes)) continue;
    machine_.BeginCopyOut(s);
    leaving_.push_back(s);
    is_leaving_[s] = true;
  }
}

// ---- Making room

bool Rollout::MakeRoom(Bytes room) {
  while (machine_.used() + room > problem_.limits.budget) {
    if (!GiveUpOne()) return false;
  }
  return true;
}

// How much it costs to give the storage up now; the least goes first.
float Rollout::KeyOf(StorageId s, OpId next_use) {
  if (!next_use.valid()) return std::numeric_limits<float>::lowest();
  const Nanos distance = problem_.clock[next_use] - problem_.clock[next_op_] + 1;
  float far = problem_.size[s];
  if (preferences_.distance_power > 0) far += static_cast<float>(preferences_.distance_power) * Log2(distance);
  if (preferences_.staleness_power > 0)
    far += static_cast<float>(preferences_.staleness_power) * Log2(machine_.now() - last_used_[s] + 1);
  if (machine_.OnHost(s)) {
    const Nanos back = problem_.link.TimeIn(workload_.bytes[s]);
    return (distance < 2 * back ? Log2(back) : 0.0f) - far;
  }
  const Nanos cost = CanRemake(s)
                         ? gone_.CostWith(s)
                         : problem_.link.TimeOut(workload_.bytes[s]) + problem_.link.TimeIn(workload_.bytes[s]);
  const float key = Log2(cost + 1) + preferences_.weight[s] - far;
  return preferences_.choice[s] == Choice::kRecompute ? key - kRecomputeFirst : key;
}

// Not while a copy reads or may write it, nor to a host that is full, nor before anything has run.
bool Rollout::CanLeaveNow(StorageId s) const {
  if (machine_.steps() == 0) return false;
  const bool needs_copy = !machine_.OnHost(s) && !CanRemake(s);
  if (needs_copy && machine_.host_used() + workload_.bytes[s] > problem_.limits.host) return false;
  return machine_.Settled(s) && !(machine_.OnHost(s) && machine_.HostReady(s) > machine_.now());
}

void Rollout::PickVictims() {
  victims_.clear();
  for (const StorageId s : idle_) {
    if (!CanLeaveNow(s)) continue;
    const OpId next_use = NextWish(s);
    victims_.push_back({KeyOf(s, next_use), s, next_use});
  }
  const auto before = [](const Victim& a, const Victim& b) {
    return std::pair(a.key, a.storage) > std::pair(b.key, b.storage);
  };
  const std::size_t batch =
      std::max<std::size_t>(1, static_cast<std::size_t>(std::ldexp(static_cast<double>(victims_.size()),
                                                                   -static_cast<int>(preferences_.batch))));
  if (victims_.size() > batch) {
    std::ranges::nth_element(victims_, victims_.end() - static_cast<std::ptrdiff_t>(batch), before);
    victims_.erase(victims_.begin(), victims_.end() - static_cast<std::ptrdiff_t>(batch));
  }
  std::ranges::sort(victims_, before);
  victims_from_ = machine_.steps();
}

// Whether the last of the victims is still the one to give up. It is taken out or moved back if not: giving up others
// may have made it dearer.
bool Rollout::IsFirst() {
  Victim& last = victims_.back();
  if (idle_place_[last.storage] == kNotIdle || NextWish(last.storage) != last.next_use || !CanLeaveNow(last.storage)) {
    victims_.pop_back();
    return false;
  }
  last.key = KeyOf(last.storage, last.next_use);
  const std::size_t n = victims_.size();
  if (n < 2 || last.key <= victims_[n - 2].key) return true;
  for (std::size_t i = n - 1; i > 0 && victims_[i].key > victims_[i - 1].key; --i)
    std::swap(victims_[i], victims_[i - 1]);
  return false;
}

bool Rollout::GiveUpOne() {
  // Steps after which victims are chosen anew; looking through many idle storages takes longer.
  const auto stale = std::max<std::size_t>(32, idle_.size() / 16);
  while (first_leaving_ < leaving_.size()) {
    const StorageId s = leaving_[first_leaving_];
    if (is_leaving_[s] && idle_place_[s] != kNotIdle && machine_.OnHost(s)) break;
    ++first_leaving_;  // it was needed before it had left, or has left already
  }
  const bool may_wait = first_leaving_ < leaving_.size();
  const StorageId leaver = may_wait ? leaving_[first_leaving_] : StorageId();
  if (may_wait && machine_.HostReady(leaver) <= machine_.now()) {
    ++first_leaving_;
    GiveUp(leaver);
    return true;
  }
  if (machine_.steps() > victims_from_ + stale) victims_.clear();
  while (!victims_.empty() && !IsFirst()) {
  }
  if (victims_.empty()) PickVictims();
  if (victims_.empty() && !may_wait) return WaitForCopy();
  if (may_wait) {
    // The copy comes to its end without being waited for, too: so the whole of it is the price of its bytes.
    const Bytes bytes = workload_.bytes[leaver];
    const float price = Log2(problem_.link.TimeOut(bytes)) - problem_.size[leaver];
    if (victims_.empty() ||
        price <= problem_.value[victims_.back().storage] + preferences_.weight[victims_.back().storage]) {
      ++first_leaving_;
      GiveUp(leaver);
      return true;
    }
  }
  const StorageId victim = victims_.back().storage;
  victims_.pop_back();
  GiveUp(victim);
  return true;
}

// Gives up the one whose copy to the host is done first, of those that nobody wanted to leave by now.
bool Rollout::WaitForCopy() {
  StorageId first;
  for (const StorageId s : idle_) {
    if (!machine_.OnHost(s) || !machine_.Settled(s)) continue;
    if (!first.valid() || std::pair(machine_.HostReady(s), s) < std::pair(machine_.HostReady(first), first)) first = s;
  }
  if (!first.valid()) return false;
  GiveUp(first);
  return true;
}

void Rollout::GiveUp(StorageId s) {
  const OpId next_use = NextUse(s);
  const bool fits_host = machine_.host_used() + workload_.bytes[s] <= problem_.limits.host;
  const bool forget =
      !machine_.OnHost(s) && CanRemake(s) && !(preferences_.nothing_again && next_use.valid() && fits_host);
  is_leaving_[s] = false;
  if (forget) {
    Forget(s);
  } else {
    LeaveForHost(s);
    away_.push_back({next_use, s});
    std::ranges::push_heap(away_, std::greater<>());
  }
  if (!problem_.limits.may_swap || !next_use.valid()) return;
  missing_from_[s] = next_use;
  forecast_.Add(next_use, workload_.bytes[s]);
}

}  // namespace ebbtide::plan
