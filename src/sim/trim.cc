#include "sim/trim.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "sim/simulate.h"

namespace ebbtide::sim {
namespace {

// For each stay, one past the last of its steps that makes, needs or changes its storage.
std::vector<Index> LastNeeds(const Workload& workload, const Schedule& schedule) {
  std::vector<Index> open(workload.storages(), kNone), out(schedule.stays.size());
  std::size_t begun = 0;
  for (std::size_t i = 0; i < schedule.stays.size(); ++i) out[i] = schedule.stays[i].from + 1;
  for (Index k = 0; k < schedule.steps.size(); ++k) {
    for (; begun < schedule.stays.size() && schedule.stays[begun].from == k; ++begun) {
      open[schedule.stays[begun].storage] = static_cast<Index>(begun);
    }
    for (const Index s : workload.needs[schedule.steps[k]]) {
      if (open[s] != kNone && k < schedule.stays[open[s]].to) out[open[s]] = k + 1;
    }
  }
  return out;
}

// Copies to the device, in the order in which their stream makes them.
struct CopyIn {
  Nanos begin = 0;
  Index stay = 0;
};

void DelayCopiesIn(const Workload& workload, const Link& link, const Outcome& outcome, Schedule& schedule) {
  // When each step begins, and the first step of each copied stay that needs it.
  std::vector<Nanos> begin;
  std::vector<CopyIn> copies;
  for (const Span& span : outcome.timeline) {
    if (span.stream == Stream::kCompute) begin.push_back(span.begin);
  }
  std::vector<std::vector<Nanos>> arrivals(workload.storages());
  for (const Span& span : outcome.timeline) {
    if (span.stream == Stream::kToDevice) arrivals[span.storage].push_back(span.begin);
  }
  std::vector<Index> open(workload.storages(), kNone), first_need(schedule.stays.size(), kNone);
  std::vector<std::size_t> taken(workload.storages(), 0);
  for (std::size_t i = 0; i < schedule.stays.size(); ++i) {
    const Stay& stay = schedule.stays[i];
    if (stay.begin == Begin::kCopyIn) copies.push_back({arrivals[stay.storage][taken[stay.storage]++], static_cast<Index>(i)});
  }
  std::size_t begun = 0;
  for (Index k = 0; k < schedule.steps.size(); ++k) {
    for (; begun < schedule.stays.size() && schedule.stays[begun].from == k; ++begun) {
      open[schedule.stays[begun].storage] = static_cast<Index>(begun);
    }
    for (const Index s : workload.needs[schedule.steps[k]]) {
      if (open[s] != kNone && first_need[open[s]] == kNone) first_need[open[s]] = k;
    }
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
  const std::vector<Index> last = LastNeeds(workload, schedule);
  for (std::size_t i = 0; i < schedule.stays.size(); ++i) {
    Stay& stay = schedule.stays[i];
    if (stay.end == End::kFree || stay.end == End::kDrop) stay.to = std::min(stay.to, last[i]);
  }
  const Outcome outcome = Simulate(workload, schedule, link, {.keep_timeline = true});
  for (std::size_t i = 0; i < schedule.stays.size(); ++i) {
    Stay& stay = schedule.stays[i];
    if (stay.end != End::kCopyOut) continue;
    const auto reached = std::ranges::lower_bound(outcome.boundary, outcome.left[i]);
    const auto first = static_cast<Index>(reached - outcome.boundary.begin());
    stay.to = std::min(stay.to, std::max({first, last[i], stay.leave}));
  }
  DelayCopiesIn(workload, link, outcome, schedule);
}

}  // namespace ebbtide::sim
