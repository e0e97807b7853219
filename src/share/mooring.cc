#include "share/mooring.h"

#include <algorithm>

#include "share/placement.h"

namespace ebbtide::share {
sim::Workload TimedWorkload(const TrainingGraph& graph, Bytes alignment) {
  std::vector<Nanos> times;
  for (const Op& op : graph.ops) times.push_back(std::max<Nanos>(op.time, 1));
  return sim::MakeWorkload(graph, std::move(times), {.alignment = alignment});
}

Bytes StateBytes(const TrainingGraph& graph, const plan::Plan& plan) {
  const sim::Workload workload = TimedWorkload(graph, plan.alignment);
  Bytes out = 0;
  for (const sim::Stay& stay : plan.schedule.stays) {
    if (stay.begin == sim::Begin::kPresent || stay.end == sim::End::kStays) out += workload.bytes[stay.storage];
  }
  return out;
}

Result<Mooring> MakeMooring(const TrainingGraph& graph, const plan::Plan& plan, const MooringOptions& options) {
  if (std::ranges::any_of(graph.storages, &Storage::outside))
    return Fail("{}: expected a step all of which lies in the pool", graph.name);
  const sim::Workload workload = TimedWorkload(graph, plan.alignment);
  Placement placement = PlaceInLane(workload, plan.schedule, options.enough);
  StepProfile profile{
      .time = {}, .height = placement.heights, .after = placement.after, .crossing = placement.crossing};
  for (const sim::Index op : placement.schedule.steps) profile.time.push_back(workload.time[op]);

  Mooring out{.plan = plan, .state = placement.state, .height = placement.height, .groups = {}, .shape = {}};
  out.shape.name = graph.name;
  out.shape.persistent = placement.state;
  for (const NodeGroup& group : CutGroups(profile, options.cut).groups) {
    out.groups.push_back(group.begin);
    out.shape.groups.push_back({group.peak, group.after});
  }
  for (std::size_t i = 0; i < placement.schedule.stays.size(); ++i) {
    if (!placement.is_state[i]) placement.schedule.stays[i].address += placement.state;
  }
  for (Bytes& address : placement.schedule.workspace_address) address += address < 0 ? 0 : placement.state;
  out.plan.schedule = std::move(placement.schedule);
  out.plan.peak = out.state + out.height;
  out.plan.budget = std::max(out.plan.budget, out.plan.peak);
  return out;
}

}  // namespace ebbtide::share
