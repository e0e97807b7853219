// Shortens stays at both ends where time does not change.
#include "sim/trim.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "sim/simulate.h"

namespace ebbtide::sim {
namespace {

// Of each stay, the steps that need its storage.
struct Needs {
  IdVector<StayId, StepId> first;  // none: no step does
  IdVector<StayId, StepId> end;    // one past the last; one past the stay's first step where none does
};

Needs FindNeeds(const Workload& workload, const Schedule& schedule) {
  Needs out;
  out.first.resize(schedule.stays.size());
  for (const Stay& stay : schedule.stays) out.end.push_back(stay.from.Next());
  IdVector<StorageId, StayId> open(workload.storages());
  StayId begun(0);
  for (const StepId k : schedule.steps.ids()) {
    for (; begun < schedule.stays.end_id() && schedule.stays[begun].from == k; ++begun) {
      open[schedule.stays[begun].storage] = begun;
    }
    for (const StorageId s : workload.needs[schedule.steps[k]]) {
      const StayId stay = open[s];
      if (!stay.valid() || k >= schedule.stays[stay].to) continue;
      if (!out.first[stay].valid()) out.first[stay] = k;
      out.end[stay] = k.Next();
    }
  }
  return out;
}

bool IsLetGo(const Stay& stay) { return stay.end == End::kFree || stay.end == End::kDrop; }

// Copies to the device, in the order in which their stream makes them.
struct CopyIn {
  Nanos begin = 0;
  StayId stay;
};

void DelayCopiesIn(const Workload& workload, const Link& link, const Outcome& outcome,
                   const IdVector<StayId, StepId>& first_need, Schedule& schedule) {
  IdVector<StepId, Nanos> begin;
  IdVector<StorageId, std::vector<Nanos>> begins(workload.storages());  // of each storage's copies, in order
  for (const Span& span : outcome.timeline) {
    if (span.op.valid()) begin.push_back(span.begin);
    if (span.stream == Stream::kToDevice) begins[span.storage].push_back(span.begin);
  }
  IdVector<StorageId, std::size_t> taken(workload.storages(), 0);
  std::vector<CopyIn> copies;
  for (const StayId i : schedule.stays.ids()) {
    const Stay& stay = schedule.stays[i];
    if (stay.begin == Begin::kCopyIn) copies.push_back({begins[stay.storage][taken[stay.storage]++], i});
  }
  std::ranges::sort(copies, std::greater<>(), [](const CopyIn& copy) { return std::pair(copy.begin, copy.stay); });
  Nanos latest = std::numeric_limits<Nanos>::max();
  for (const CopyIn& copy : copies) {
    Stay& stay = schedule.stays[copy.stay];
    const StepId need = first_need[copy.stay];
    latest = std::min(latest, begin[need]) - link.TimeIn(workload.bytes[stay.storage]);
    const auto after = std::ranges::upper_bound(outcome.released, latest);
    const auto boundaries = static_cast<std::size_t>(after - outcome.released.begin());  // released by then
    if (boundaries > 0) stay.from = std::clamp(StepId(boundaries - 1), stay.from, need);
  }
  std::ranges::sort(schedule.stays, {}, [](const Stay& stay) { return std::tuple(stay.from, stay.storage, stay.to); });
}

}  // namespace

void Trim(const Workload& workload, const Link& link, Schedule& schedule) {
  const Needs needs = FindNeeds(workload, schedule);
  for (const StayId i : schedule.stays.ids()) {
    Stay& stay = schedule.stays[i];
    const bool exchanged = workload.HasExchanges() && workload.held_until[stay.storage].valid();
    if (IsLetGo(stay) && !exchanged) stay.to = std::min(stay.to, needs.end[i]);
  }
  const Outcome outcome = Simulate(workload, schedule, link, {.keep_timeline = true});
  const auto first_after = [&](Nanos time) {
    const auto reached = std::ranges::lower_bound(outcome.boundary, time);
    return StepId(static_cast<std::size_t>(reached - outcome.boundary.begin()));
  };
  for (const StayId i : schedule.stays.ids()) {
    Stay& stay = schedule.stays[i];
    const StepId unused = outcome.used.empty() ? StepId(0) : first_after(outcome.used[i]);
    if (IsLetGo(stay)) stay.to = std::min(stay.to, std::max(unused, needs.end[i]));
    if (stay.end != End::kCopyOut) continue;
    stay.to = std::min(stay.to, std::max({first_after(outcome.left[i]), needs.end[i], stay.leave, unused}));
  }
  DelayCopiesIn(workload, link, outcome, needs.first, schedule);
}

Schedule Trimmed(const Workload& workload, const Link& link, Schedule schedule) {
  const Nanos time = Simulate(workload, schedule, link).time;
  Schedule out = schedule;
  Trim(workload, link, out);
  return Simulate(workload, out, link).time <= time ? out : schedule;
}

}  // namespace ebbtide::sim
