#include "report/plan_summary.h"

#include <fmt/format.h>

#include <algorithm>

namespace ebbtide::report {
namespace {

using sim::Begin;
using sim::End;
using sim::Stay;

// For each op the step at which it runs for the first time.
std::vector<Index> FirstRuns(const sim::Workload& workload, const sim::Schedule& schedule) {
  std::vector<Index> out(workload.ops(), sim::kNone);
  for (Index k = 0; k < schedule.steps.size(); ++k) {
    Index& step = out[schedule.steps[k]];
    if (step == sim::kNone) step = k;
  }
  return out;
}

// Whether an op of the step itself, not a recomputation, needs the storage during the stay.
bool ServesTheStep(const sim::Workload& workload, const std::vector<Index>& first_runs, const Stay& stay) {
  return std::ranges::any_of(workload.uses[stay.storage],
                             [&](Index op) { return stay.from <= first_runs[op] && first_runs[op] < stay.to; });
}

bool SavedForBackward(const sim::Workload& workload, Index s) {
  const auto uses = workload.uses[s];
  return workload.born[s] != sim::kNone && !workload.in_backward[workload.born[s]] && !uses.empty() &&
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
      if (span.storage != sim::kNone) by_storage_[span.storage].cost += span.end - span.begin;
    }
    for (Index s = 0; s < workload.storages(); ++s) Close(s);
  }

  void Fill(PlanSummary& out) {
    for (Index s = 0; s < workload_.storages(); ++s) {
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
  void Close(Index s) {
    MovedStorage& moved = by_storage_[s];
    moved.storage = s;
    moved.bytes = workload_.bytes[s];
    if (moved.swapped) return;
    moved.cost = 0;
    for (const Index op : workload_.recipe[s]) moved.cost += workload_.time[op] * moved.returns;
  }
  void Count(Handling& handling, Index s) const {
    ++handling.storages;
    handling.bytes += workload_.bytes[s];
  }

  const sim::Workload& workload_;
  const std::vector<Nanos>& boundary_;
  const std::vector<Index> first_runs_;
  std::vector<MovedStorage> by_storage_;
  std::vector<Nanos> left_;  // by storage: when it last left
};

std::vector<Stall> FindStalls(const sim::Workload& workload, const sim::Schedule& schedule,
                              const sim::Outcome& outcome) {
  std::vector<Stall> out;
  // The copies to the host that each boundary waits for, the last to end.
  const Index steps = static_cast<Index>(schedule.steps.size());
  std::vector<Index> last_to_leave(steps + 1, sim::kNone);
  for (Index i = 0; i < schedule.stays.size(); ++i) {
    const Stay& stay = schedule.stays[i];
    if (stay.end != End::kCopyOut) continue;
    Index& last = last_to_leave[stay.to];
    if (last == sim::kNone || outcome.left[i] > outcome.left[last]) last = i;
  }
  std::vector<Nanos> arrival(workload.storages(), 0);
  Index step = 0;
  const auto wait_for_memory = [&](Index k) {
    const Nanos from = outcome.boundary[k], to = outcome.released[k];
    if (to <= from) return;
    const Index stay = last_to_leave[k];
    out.push_back({from, to, Stall::Cause::kMemory, k < steps ? schedule.steps[k] : sim::kNone,
                   stay == sim::kNone ? sim::kNone : schedule.stays[stay].storage});
  };
  for (const sim::Span& span : outcome.timeline) {
    if (span.stream == sim::Stream::kToDevice) arrival[span.storage] = span.end;
    if (span.stream != sim::Stream::kCompute) continue;
    wait_for_memory(step);
    if (span.begin > outcome.released[step]) {
      Stall stall{outcome.released[step], span.begin, Stall::Cause::kData, span.op, sim::kNone};
      for (const Index s : workload.needs[span.op]) {
        if (stall.storage == sim::kNone || arrival[s] > arrival[stall.storage]) stall.storage = s;
      }
      out.push_back(stall);
    }
    ++step;
  }
  wait_for_memory(steps);
  if (outcome.drain > 0) {
    Stall stall{outcome.time - outcome.drain, outcome.time, Stall::Cause::kDrain, sim::kNone, sim::kNone};
    for (const sim::Span& span : outcome.timeline) {
      if (span.end == outcome.time) stall.storage = span.storage;
    }
    out.push_back(stall);
  }
  return out;
}

}  // namespace

PlanSummary Summarize(const sim::Workload& workload, const sim::Schedule& schedule, const sim::Outcome& outcome) {
  PlanSummary out;
  Moves(workload, schedule, outcome).Fill(out);
  out.stalls = FindStalls(workload, schedule, outcome);
  return out;
}

std::string OpLabel(const TrainingGraph& graph, Index op) {
  const Op& that = graph.ops[op];
  return that.layer.empty() ? that.kind : that.kind + " of " + that.layer;
}

std::string StorageLabel(const TrainingGraph& graph, const sim::Workload& workload, Index storage) {
  const std::string& name = graph.storages[storage].name;
  if (!name.empty()) return name;
  const Index maker = workload.born[storage];
  return maker == sim::kNone ? fmt::format("storage {}", storage) : OpLabel(graph, maker);
}

std::string FormatTime(Nanos time) {
  constexpr Nanos kMillisecond = 1'000'000;
  if (time == 0 || time >= kMillisecond) return fmt::format("{:.2f} ms", static_cast<double>(time) / 1e6);
  return fmt::format("{:.1f} us", static_cast<double>(time) / 1e3);
}

std::string FormatSlowdown(Nanos time, Nanos plain) {
  return plain > 0 ? fmt::format("{:.3f}x", static_cast<double>(time) / static_cast<double>(plain)) : "-";
}

}  // namespace ebbtide::report
