#include "sim/trim.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "sim/simulate.h"

namespace ebbtide::sim {
namespace {

// Of each stay, the steps that need its storage.
struct Needs {
  std::vector<Index> first;  // kNone: no step does
  std::vector<Index> end;    // one past the last; behind the first step where none does
};

Needs FindNeeds(const Workload& workload, const Schedule& schedule) {
  Needs out;
  out.first.assign(schedule.stays.size(), kNone);
  for (const Stay& stay : schedule.stays) out.end.push_back(stay.from + 1);
  std::vector<Index> open(workload.storages(), kNone);
  std::size_t begun = 0;
  for (Index k = 0; k < schedule.steps.size(); ++k) {
    for (; begun < schedule.stays.size() && schedule.stays[begun].from == k; ++begun) {
      open[schedule.stays[begun].storage] = static_cast<Index>(begun);
    }
    for (const Index s : workload.needs[schedule.steps[k]]) {
      const Index stay = open[s];
      if (stay == kNone || k >= schedule.stays[stay].to) continue;
      if (out.first[stay] == kNone) out.first[stay] = k;
      out.end[stay] = k + 1;
    }
  }
  return out;
}

// Copies to the device, in the order in which their stream makes them.
struct CopyIn {
  Nanos begin = 0;
  Index stay = 0;
};

void DelayCopiesIn(const Workload& workload, const Link& link, const Outcome& outcome,
                   const std::vector<Index>& first_need, Schedule& schedule) {
  std::vector<Nanos> begin;                                     // of each step
  std::vector<std::vector<Nanos>> begins(workload.storages());  // of each storage's copies, in order
  for (const Span& span : outcome.timeline) {
    if (span.stream == Stream::kCompute) begin.push_back(span.begin);
    if (span.stream == Stream::kToDevice) begins[span.storage].push_back(span.begin);
  }
  std::vector<std::size_t> taken(workload.storages(), 0);
  std::vector<CopyIn> copies;
  for (std::size_t i = 0; i < schedule.stays.size(); ++i) {
    const Stay& stay = schedule.stays[i];
    if (stay.begin == Begin::kCopyIn)
      copies.push_back({begins[stay.storage][taken[stay.storage]++], static_cast<Index>(i)});
  }
  std::ranges::sort(copies, std::greater<>(), [](const CopyIn& copy) { return std::pair(copy.begin, copy.stay); });
  Nanos latest = std::numeric_limits<Nanos>::max();
  for (const CopyIn& copy : copies) {
    Stay& stay = schedule.stays[copy.stay];
    const Index need = first_need[copy.stay];
    latest = std::min(latest, begin[need]) - link.TimeIn(workload.bytes[stay.storage]);
    const auto after = std::ranges::upper_bound(outcome.released, latest);
    const auto boundary = static_cast<Index>(after - outcome.released.begin());
    if (boundary > 0) stay.from = std::clamp(boundary - 1, stay.from, need);
  }
  std::ranges::sort(schedule.stays, {}, [](const Stay& stay) { return std::tuple(stay.from, stay.storage, stay.to); });
}

}  // namespace

void Trim(const Workload& workload, const Link& link, Schedule& schedule) {
  const Needs needs = FindNeeds(workload, schedule);
  for (std::size_t i = 0; i < schedule.stays.size(); ++i) {
    Stay& stay = schedule.stays[i];
    if (stay.end == End::kFree || stay.end == End::kDrop) stay.to = std::min(stay.to, needs.end[i]);
  }
  const Outcome outcome = Simulate(workload, schedule, link, {.keep_timeline = true});
  for (std::size_t i = 0; i < schedule.stays.size(); ++i) {
    Stay& stay = schedule.stays[i];
    if (stay.end != End::kCopyOut) continue;
    const auto reached = std::ranges::lower_bound(outcome.boundary, outcome.left[i]);
    const auto first = static_cast<Index>(reached - outcome.boundary.begin());
    stay.to = std::min(stay.to, std::max({first, needs.end[i], stay.leave}));
  }
  DelayCopiesIn(workload, link, outcome, needs.first, schedule);
}

}  // namespace ebbtide::sim
