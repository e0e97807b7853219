#include "share/track.h"

#include <algorithm>

namespace ebbtide::share {

Track MakeTrack(const Job& job, const sim::Link& link) {
  const sim::Workload& workload = job.training->workload;
  const sim::Schedule& schedule = job.placement.schedule;
  Track out;
  out.boundaries.resize(schedule.steps.size() + 1);
  out.copy_out.assign(schedule.stays.size(), 0), out.copy_in.assign(schedule.stays.size(), 0);
  for (const sim::Index op : schedule.steps) {
    const Nanos launch = job.training->launch[op];
    out.steps.push_back({.launch = static_cast<double>(launch),
                         .body = static_cast<double>(workload.time[op] - launch),
                         .share = job.training->share[op],
                         .arrivals = {}});
  }
  for (const NodeGroup& group : job.cut.groups) {
    out.group_of.resize(group.end, static_cast<std::uint32_t>(out.group_end.size()));
    out.group_end.push_back(group.end);
  }
  const std::vector<sim::Index> next_need = sim::NextNeeds(workload, schedule, sim::RunsAgain(workload, schedule));
  for (std::uint32_t i = 0; i < schedule.stays.size(); ++i) {
    const sim::Stay& stay = schedule.stays[i];
    if (stay.end == sim::End::kCopyOut) {
      out.copy_out[i] = link.TimeOut(workload.bytes[stay.storage]);
      out.boundaries[stay.leave].leaving.push_back(i);
      out.boundaries[stay.to].ending.push_back(i);
    }
    if (stay.begin != sim::Begin::kCopyIn) continue;
    out.copy_in[i] = link.TimeIn(workload.bytes[stay.storage]);
    out.boundaries[stay.from].entering.push_back(i);
    for (sim::Index step = stay.from; step < stay.to; ++step) {
      const auto needs = workload.needs[schedule.steps[step]];
      if (std::ranges::find(needs, stay.storage) == needs.end()) continue;
      out.steps[step].arrivals.push_back(i);
      break;
    }
  }
  for (Track::Boundary& boundary : out.boundaries) {
    std::ranges::stable_sort(boundary.leaving, {}, [&](std::uint32_t i) { return schedule.stays[i].turn; });
    std::ranges::stable_sort(boundary.entering, {}, [&](std::uint32_t i) { return next_need[i]; });
  }
  return out;
}

}  // namespace ebbtide::share
