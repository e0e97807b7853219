// Tells what a schedule moves and what it waits for from its simulated timeline.
#include "plan/summary.h"

#include <algorithm>

namespace ebbtide::plan {
namespace {

using sim::Begin;
using sim::End;
using sim::Stay;
using sim::StayId;
using sim::StepId;

// For each op the step at which it runs for the first time.
IdVector<OpId, StepId> FirstRuns(const sim::Workload& workload, const sim::Schedule& schedule) {
  IdVector<OpId, StepId> out(workload.ops());
  for (const StepId k : schedule.steps.ids()) {
    StepId& step = out[schedule.steps[k]];
    if (!step.valid()) step = k;
  }
  return out;
}

// Whether an op of the step itself, not a recomputation, needs the storage during the stay.
bool ServesTheStep(const sim::Workload& workload, const IdVector<OpId, StepId>& first_runs, const Stay& stay) {
  return std::ranges::any_of(workload.uses[stay.storage],
                             [&](OpId op) { return stay.from <= first_runs[op] && first_runs[op] < stay.to; });
}

bool SavedForBackward(const sim::Workload& workload, StorageId s) {
  const auto uses = workload.uses[s];
  return !workload.IsState(s) && !workload.in_backward[workload.born[s]] && !uses.empty() &&
         workload.in_backward[uses.back()];
}

class Moves {
 public:
  Moves(const sim::Workload& workload, const sim::Schedule& schedule, const sim::Outcome& outcome)
      : workload_(workload), boundary_(outcome.boundary), first_runs_(FirstRuns(workload, schedule)) {
    by_storage_.resize(workload.storages());
    left_.assign(workload.storages(), -1);
    for (const Stay& stay : schedule.stays) See(stay);
    for (const sim::Span& span : outcome.timeline) {
      if (span.storage.valid()) by_storage_[span.storage].cost += span.end - span.begin;
    }
    for (const StorageId s : workload.storage_ids()) Close(s);
  }

  void Fill(Summary& out) {
    for (const StorageId s : workload_.storage_ids()) {
      const MovedStorage& moved = by_storage_[s];
      if (moved.returns == 0) {
        if (SavedForBackward(workload_, s)) Count(out.kept, s);
      } else {
        Count(moved.swapped ? out.swapped : out.recomputed, s);
        out.moved.push_back(moved);
      }
    }
    std::ranges::stable_sort(out.moved, std::greater<>(), &MovedStorage::bytes);
  }

 private:
  // The stays of a storage come in order.
  void See(const Stay& stay) {
    MovedStorage& moved = by_storage_[stay.storage];
    const bool copied = stay.begin == Begin::kCopyIn, made_again = stay.begin == Begin::kRecompute;
    if (made_again && !ServesTheStep(workload_, first_runs_, stay)) return;
    if (copied || made_again) {
      ++moved.returns;
      moved.swapped |= copied;
      const Nanos comes = boundary_[stay.from], leaves = left_[stay.storage];
      if (comes - leaves > moved.comes - moved.leaves) moved.leaves = leaves, moved.comes = comes;
    }
    left_[stay.storage] = boundary_[stay.to];
  }
  void Close(StorageId s) {
    MovedStorage& moved = by_storage_[s];
    moved.storage = s;
    moved.bytes = workload_.bytes[s];
    if (moved.swapped) return;
    moved.cost = 0;
    for (const OpId op : workload_.recipe[s]) moved.cost += workload_.Cost(op) * moved.returns;
  }
  void Count(Handling& handling, StorageId s) const {
    ++handling.storages;
    handling.bytes += workload_.bytes[s];
  }

  const sim::Workload& workload_;
  const IdVector<StepId, Nanos>& boundary_;
  const IdVector<OpId, StepId> first_runs_;
  IdVector<StorageId, MovedStorage> by_storage_;
  IdVector<StorageId, Nanos> left_;  // when it last left
};

std::vector<Stall> FindStalls(const sim::Workload& workload, const sim::Schedule& schedule,
                              const sim::Outcome& outcome) {
  std::vector<Stall> out;
  // The copies to the host that each boundary waits for, the last to end.
  IdVector<StepId, StayId> last_to_leave(schedule.steps.size() + 1);
  for (const StayId i : schedule.stays.ids()) {
    const Stay& stay = schedule.stays[i];
    if (stay.end != End::kCopyOut) continue;
    StayId& last = last_to_leave[stay.to];
    if (!last.valid() || outcome.left[i] > outcome.left[last]) last = i;
  }
  IdVector<StorageId, Nanos> arrival(workload.storages(), 0);
  IdVector<StorageId, bool> is_from_ranks(workload.storages(), false);
  StepId step(0);
  const auto wait_for_memory = [&](StepId k) {
    const Nanos from = outcome.boundary[k], to = outcome.released[k];
    if (to <= from) return;
    const StayId stay = last_to_leave[k];
    const OpId op = k < schedule.steps.end_id() ? schedule.steps[k] : OpId();
    // First for copies to the host, then for collectives that use what ends here.
    const Nanos copied = stay.valid() ? std::clamp(outcome.left[stay], from, to) : from;
    if (copied > from) out.push_back({from, copied, Stall::Cause::kMemory, op, schedule.stays[stay].storage});
    if (to > copied) out.push_back({copied, to, Stall::Cause::kRanks, op, StorageId()});
  };
  for (const sim::Span& span : outcome.timeline) {
    if (span.stream == sim::Stream::kToDevice) arrival[span.storage] = span.end, is_from_ranks[span.storage] = false;
    if (!span.op.valid()) continue;
    wait_for_memory(step);
    if (span.stream == sim::Stream::kExchange) {
      for (const auto& list : {workload.births[span.op], workload.changes[span.op]}) {
        for (const StorageId s : list) arrival[s] = span.end, is_from_ranks[s] = true;
      }
    } else if (span.begin > outcome.released[step]) {
      Stall stall{outcome.released[step], span.begin, Stall::Cause::kData, span.op, StorageId()};
      for (const StorageId s : workload.needs[span.op]) {
        if (!stall.storage.valid() || arrival[s] > arrival[stall.storage]) stall.storage = s;
      }
      // Nothing has come just now: it waits to change what a collective uses.
      const bool for_use = !stall.storage.valid() || arrival[stall.storage] < span.begin;
      if (for_use && workload.HasExchanges()) stall.storage = StorageId();
      if (for_use ? workload.HasExchanges() : is_from_ranks[stall.storage]) stall.cause = Stall::Cause::kRanks;
      out.push_back(stall);
    }
    ++step;
  }
  wait_for_memory(schedule.steps.end_id());
  if (outcome.drain > 0) {
    Stall stall{outcome.time - outcome.drain, outcome.time, Stall::Cause::kDrain, OpId(), StorageId()};
    for (const sim::Span& span : outcome.timeline) {
      if (span.end == outcome.time) stall.storage = span.storage;
    }
    out.push_back(stall);
  }
  return out;
}

}  // namespace

Summary Summarize(const sim::Workload& workload, const sim::Schedule& schedule, const sim::Outcome& outcome) {
  Summary out;
  Moves(workload, schedule, outcome).Fill(out);
  out.stalls = FindStalls(workload, schedule, outcome);
  return out;
}

}  // namespace ebbtide::plan
