// Capuchin (Peng et al., 2020): from the accesses of one measured iteration, storages that are idle across the peak are
// swapped, those with the most free time first, as long as the copies are hidden; then swapped or recomputed, whichever
// costs less for its bytes. Copies back are begun a copy's time before they are needed, earlier where that was too
// late.
#include <algorithm>

#include "plan/policies/policy.h"
#include "plan/search/driver.h"
#include "sim/simulate.h"

namespace ebbtide::plan {
namespace {

struct Decision {
  StorageId storage;
  OpId evict, back;  // the accesses around the time it is away
  bool swap = false;
  Nanos trigger = 0;  // time of the plain step at which the copy back begins
};

class Capuchin : public Driver {
 public:
  Capuchin(const Problem& problem, const std::vector<Decision>& decisions)
      : Driver(problem, /*record=*/true),
        decisions_(decisions),
        at_evict_(workload_.ops()),
        leaves_(workload_.storages(), false) {
    for (std::size_t i = 0; i < decisions.size(); ++i) {
      at_evict_[decisions[i].evict].push_back(i);
      if (decisions[i].swap) triggers_.emplace_back(decisions[i].trigger, decisions[i].storage);
    }
    std::ranges::sort(triggers_);
  }

 private:
  void BeforeOp(OpId op) override {
    // A copy for which there is no room yet holds up those behind it.
    for (; next_trigger_ < triggers_.size() && triggers_[next_trigger_].first <= problem_.clock[op]; ++next_trigger_) {
      const StorageId s = triggers_[next_trigger_].second;
      if (machine_.OnDevice(s) || !machine_.OnHost(s)) continue;
      if (machine_.used() + workload_.bytes[s] + problem_.needed[op] > problem_.limits.budget) return;
      BringBack(s);
    }
  }
  void AfterOp(OpId op) override {
    for (const std::size_t i : at_evict_[op]) {
      const Decision& decision = decisions_[i];
      const StorageId s = decision.storage;
      if (!machine_.OnDevice(s) || IsLocked(s) || NextUse(s) != decision.back) continue;
      if (!decision.swap) {
        if (!machine_.OnHost(s)) Forget(s);
      } else if (!machine_.OnHost(s) && machine_.host_used() + workload_.bytes[s] <= problem_.limits.host) {
        machine_.BeginCopyOut(s);
        leaving_.push_back(s);
        leaves_[s] = true;
      }
    }
    // Copies that are done give their memory back.
    while (first_ < leaving_.size() && machine_.HostReady(leaving_[first_]) <= machine_.now())
      Leave(leaving_[first_++]);
  }
  void ComeBack(StorageId s) override { leaves_[s] = false; }

  void Leave(StorageId s) {
    if (leaves_[s] && machine_.OnDevice(s) && machine_.OnHost(s) && !IsLocked(s) && NextUse(s).valid()) LeaveForHost(s);
    leaves_[s] = false;
  }
  bool MakeRoom(Bytes room) override {
    while (machine_.used() + room > problem_.limits.budget) {
      if (first_ == leaving_.size()) return false;
      Leave(leaving_[first_++]);
    }
    return true;
  }

  const std::vector<Decision>& decisions_;
  IdVector<OpId, std::vector<std::size_t>> at_evict_;  // decisions
  std::vector<std::pair<Nanos, StorageId>> triggers_;
  std::size_t next_trigger_ = 0;
  std::vector<StorageId> leaving_;
  IdVector<StorageId, bool> leaves_;
  std::size_t first_ = 0;
};

struct Candidate {
  Decision decision;
  Nanos free_time = 0;
  Nanos swap_time = 0;
};

OpId PeakOp(const Problem& problem) {
  return OpId(static_cast<std::size_t>(std::ranges::max_element(problem.live) - problem.live.begin()));
}

std::vector<Candidate> FindIdleAtPeak(const Problem& problem) {
  const sim::Workload& workload = *problem.workload;
  const OpId peak = PeakOp(problem);
  std::vector<Candidate> out;
  for (const StorageId s : workload.storage_ids()) {
    const auto uses = workload.uses[s];
    if (workload.IsState(s) || workload.bytes[s] == 0) continue;
    const auto after = std::ranges::upper_bound(uses, peak);
    if (after == uses.end() || after == uses.begin() || *(after - 1) >= peak) continue;
    Candidate candidate{.decision = {.storage = s, .evict = *(after - 1), .back = *after}};
    candidate.swap_time = std::max(problem.link.TimeIn(workload.bytes[s]), problem.link.TimeOut(workload.bytes[s]));
    candidate.free_time =
        (problem.clock[*after] - candidate.swap_time) - (problem.clock[(after - 1)->Next()] + candidate.swap_time);
    candidate.decision.trigger = problem.clock[*after] - candidate.swap_time;
    out.push_back(candidate);
  }
  std::ranges::stable_sort(out, std::greater<>(), &Candidate::free_time);
  return out;
}

// The latest times for the copies back, one at a time each way. False: a copy to the host ends after the peak, or one
// back would have to begin before its storage has left.
bool SetTriggers(const Problem& problem, std::vector<Decision>& decisions, OpId peak) {
  const sim::Workload& workload = *problem.workload;
  std::vector<Decision*> swaps;
  for (Decision& decision : decisions) {
    if (decision.swap) swaps.push_back(&decision);
  }
  bool hidden = true;
  std::ranges::stable_sort(swaps, {}, [](const Decision* d) { return d->evict; });
  IdVector<StorageId, Nanos> left(workload.storages(), 0);
  Nanos out_free = 0;
  for (const Decision* decision : swaps) {
    out_free = std::max(out_free, problem.clock[decision->evict.Next()]) +
               problem.link.TimeOut(workload.bytes[decision->storage]);
    left[decision->storage] = out_free;
    hidden &= out_free <= problem.clock[peak];
  }
  std::ranges::stable_sort(swaps, std::greater<>(), [](const Decision* d) { return d->back; });
  Nanos next = kInfeasible;
  for (Decision* decision : swaps) {
    const Bytes bytes = workload.bytes[decision->storage];
    next = std::min(next, problem.clock[decision->back]) - problem.link.TimeIn(bytes);
    decision->trigger = std::max<Nanos>(0, next);
    hidden &= next >= left[decision->storage];
  }
  return hidden;
}

// Decisions that save at least `needed` bytes at the peak; fewer where there are no more candidates.
std::vector<Decision> Decide(const Problem& problem, std::vector<Candidate> candidates, Bytes needed) {
  const sim::Workload& workload = *problem.workload;
  const OpId peak = PeakOp(problem);
  std::vector<Decision> out;
  IdVector<StorageId, bool> is_gone(workload.storages(), false);
  IdVector<StorageId, Nanos> cost = problem.again;  // of making each again, with the inputs that are gone
  Bytes saved = 0;
  const auto take = [&](Candidate& candidate, bool swap) {
    candidate.decision.swap = swap;
    out.push_back(candidate.decision);
    const StorageId s = candidate.decision.storage;
    saved += workload.bytes[s];
    if (swap) return;
    is_gone[s] = true;
    for (const StorageId other : problem.neighbours[s]) {
      if (!is_gone[other]) cost[other] += cost[s];
    }
  };
  std::vector<Candidate> rest;
  for (Candidate& candidate : candidates) {
    if (saved >= needed || IsCancelled(problem)) break;
    take(candidate, true);
    if (problem.limits.may_swap && candidate.free_time >= 0 && SetTriggers(problem, out, peak)) continue;
    out.pop_back();
    saved -= workload.bytes[candidate.decision.storage];
    rest.push_back(candidate);
  }
  while (saved < needed && !rest.empty() && !IsCancelled(problem)) {
    double best = -1;
    std::size_t at = 0;
    bool best_swaps = false;
    for (std::size_t i = 0; i < rest.size(); ++i) {
      const StorageId s = rest[i].decision.storage;
      const auto bytes = static_cast<double>(workload.bytes[s]);
      const bool can_remake = problem.limits.may_recompute && !workload.recipe[s].empty();
      const Nanos stall = 2 * rest[i].swap_time + std::max<Nanos>(0, -rest[i].free_time);
      const double by_swap = problem.limits.may_swap ? bytes / static_cast<double>(stall + 1) : -1;
      const double by_recompute = can_remake ? bytes / static_cast<double>(cost[s] + 1) : -1;
      if (std::max(by_swap, by_recompute) > best)
        best = std::max(by_swap, by_recompute), at = i, best_swaps = by_swap > by_recompute;
    }
    if (best < 0) break;
    take(rest[at], best_swaps);
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(at));
  }
  SetTriggers(problem, out, peak);
  return out;
}

}  // namespace

PolicyResult RunCapuchin(const PolicyInput& input) {
  const Problem& problem = input.problem;
  if (problem.live.empty()) return RunNone(input);
  const Bytes peak = *std::ranges::max_element(problem.live);
  const std::vector<Candidate> candidates = FindIdleAtPeak(problem);
  constexpr int kRounds = 12;  // measured iterations: what was too little is made more, what was too late earlier
  Bytes needed = peak - problem.limits.budget;
  PolicyResult best;
  Nanos best_time = kInfeasible;
  std::vector<Decision> decisions = Decide(problem, candidates, needed);
  for (int round = 0; round < kRounds && !IsCancelled(problem); ++round) {
    Capuchin driver(problem, decisions);
    if (!driver.Run()) {
      needed += peak / 20;
      decisions = Decide(problem, candidates, needed);
      continue;
    }
    sim::Schedule schedule = driver.TakeSchedule();
    const sim::Outcome outcome = sim::Simulate(*problem.workload, schedule, problem.link);
    if (outcome.time < best_time) best_time = outcome.time, best.schedule = std::move(schedule);
    if (outcome.wait_for_data == 0) break;
    for (Decision& decision : decisions) {
      const Nanos swap_time = problem.link.TimeIn(problem.workload->bytes[decision.storage]);
      decision.trigger = std::max<Nanos>(0, decision.trigger - swap_time / 20);
    }
  }
  return best;
}

}  // namespace ebbtide::plan
