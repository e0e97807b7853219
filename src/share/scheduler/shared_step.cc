// Places a plan for a lane and moves all but its state behind the state.
#include "share/scheduler/shared_step.h"

#include <algorithm>

#include "share/scheduler/job.h"

namespace ebbtide::share {

Result<SharedStep> MakeSharedStep(const TrainingGraph& graph, const plan::Plan& plan,
                                  const SharedStepOptions& options) {
  if (std::ranges::any_of(graph.storages, &Storage::outside))
    return Fail("{}: expected a step all of which lies in the pool", graph.name);
  const sim::Workload workload = MeasuredWorkload(graph, plan.alignment);
  Placement placement = PlaceInLane(workload, plan.schedule, options.height_limit);

  SharedStep out{.plan = plan, .state = placement.state, .height = placement.height, .groups = {}, .shape = {}};
  out.shape.name = graph.name;
  out.shape.persistent = placement.state;
  for (const NodeGroup& group : CutGroups(ProfileOf(workload, placement), options.cut).groups) {
    out.groups.push_back(group.begin);
    out.shape.groups.push_back({group.peak, group.after});
  }
  for (const StayId i : placement.schedule.stays.ids()) {
    if (!placement.is_state[i]) placement.schedule.stays[i].address += placement.state;
  }
  for (Bytes& address : placement.schedule.workspace_address) address += address < 0 ? 0 : placement.state;
  out.plan.schedule = std::move(placement.schedule);
  out.plan.peak = out.state + out.height;
  out.plan.budget = std::max(out.plan.budget, out.plan.peak);
  return out;
}

}  // namespace ebbtide::share
