// Sorts a schedule's stays by the boundaries at which they leave, end and enter, and by the steps that wait for them.
#include "sim/layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ebbtide::sim {
namespace {

bool CopiesOut(const Stay& stay) { return stay.end == End::kCopyOut; }
bool CopiesIn(const Stay& stay) { return stay.begin == Begin::kCopyIn; }
bool Ends(const Stay& stay) { return stay.end != End::kStays; }

// The stays that `has` holds for, by the boundary that `boundary` tells, each list in the order of `rank`.
template <class Has, class Boundary, class Rank>
Lists<StepId, StayId> ByBoundary(const Schedule& schedule, Has has, Boundary boundary, Rank rank) {
  std::vector<std::uint32_t> begin(schedule.steps.size() + 2, 0);
  for (const Stay& stay : schedule.stays) {
    if (has(stay)) ++begin[(stay.*boundary).index() + 1];
  }
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  std::vector<StayId> stays(begin.back());
  for (const StayId i : schedule.stays.ids()) {
    if (has(schedule.stays[i])) stays[next[(schedule.stays[i].*boundary).index()]++] = i;
  }
  for (std::size_t k = 0; k + 1 < begin.size(); ++k) {
    if (begin[k + 1] - begin[k] > 1) std::sort(stays.begin() + begin[k], stays.begin() + begin[k + 1], rank);
  }
  return Lists<StepId, StayId>(std::move(begin), std::move(stays));
}

// For each copy-in, the graph's next op that needs its storage; none for other stays, and where no op does.
IdVector<StayId, OpId> NextNeeds(const Workload& workload, const Schedule& schedule,
                                 const IdVector<StepId, bool>& again) {
  // The first op not yet run at each boundary.
  IdVector<StepId, OpId> next_op(schedule.steps.size() + 1, workload.time.end_id());
  for (std::size_t i = schedule.steps.size(); i-- > 0;) {
    const StepId k(i);
    next_op[k] = again[k] ? next_op[k.Next()] : schedule.steps[k];
  }
  IdVector<StayId, OpId> out(schedule.stays.size());
  for (const StayId i : schedule.stays.ids()) {
    const Stay& stay = schedule.stays[i];
    if (!CopiesIn(stay)) continue;
    const auto uses = workload.uses[stay.storage];
    const auto use = std::ranges::lower_bound(uses, next_op[stay.from]);
    if (use != uses.end()) out[i] = *use;
  }
  return out;
}

Lists<StepId, StayId> FindArrivals(const Workload& workload, const Schedule& schedule,
                                   const Lists<StepId, StayId>& entering) {
  IdVector<StorageId, StayId> coming(workload.storages());  // the stay whose copy nobody has waited for
  std::vector<std::uint32_t> begin{0};
  std::vector<StayId> stays;
  begin.reserve(schedule.steps.size() + 1);
  for (const StepId k : schedule.steps.ids()) {
    for (const StayId i : entering[k]) coming[schedule.stays[i].storage] = i;
    for (const StorageId s : workload.needs[schedule.steps[k]]) {
      const StayId i = std::exchange(coming[s], StayId());
      if (i.valid() && k < schedule.stays[i].to) stays.push_back(i);
    }
    begin.push_back(static_cast<std::uint32_t>(stays.size()));
  }
  return Lists<StepId, StayId>(std::move(begin), std::move(stays));
}

}  // namespace

IdVector<StepId, bool> RunsAgain(const Workload& workload, const Schedule& schedule) {
  IdVector<OpId, bool> ran(workload.ops(), false);
  IdVector<StepId, bool> again(schedule.steps.size(), false);
  for (const StepId k : schedule.steps.ids()) {
    again[k] = ran[schedule.steps[k]];
    ran[schedule.steps[k]] = true;
  }
  return again;
}

Layout MakeLayout(const Workload& workload, const Schedule& schedule) {
  const IdVector<StayId, Stay>& stays = schedule.stays;
  Layout out;
  out.again = RunsAgain(workload, schedule);
  const IdVector<StayId, OpId> next_need = NextNeeds(workload, schedule, out.again);
  out.leaving = ByBoundary(schedule, CopiesOut, &Stay::leave, [&](StayId a, StayId b) {
    return std::pair(stays[a].turn, stays[a].storage) < std::pair(stays[b].turn, stays[b].storage);
  });
  out.ending = ByBoundary(schedule, Ends, &Stay::to, std::less<>());
  out.entering = ByBoundary(schedule, CopiesIn, &Stay::from, [&](StayId a, StayId b) {
    return std::pair(NoneLast(next_need[a]), stays[a].storage) < std::pair(NoneLast(next_need[b]), stays[b].storage);
  });
  out.arrivals = FindArrivals(workload, schedule, out.entering);
  return out;
}

}  // namespace ebbtide::sim
