// Plans of random steps, with their state moved below all else, and heights by group.
#include "tests/support/shared_cases.h"

#include <algorithm>

#include "graph/hash.h"
#include "sim/simulate.h"

namespace ebbtide::run {

SharedCase RandomSharedCase(int seed, int groups) {
  SharedCase out{plan::RandomTask(static_cast<std::uint64_t>(seed)), {}, 0, {}};
  TrainingGraph& graph = out.task->graph;
  for (Op& op : graph.ops) op.random = op.kind == "native_dropout";
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  const plan::Preferences preferences = plan::RandomPreferences(out.task->workload, random);
  plan::Rollout rollout(out.task->problem, preferences, /*record=*/true);
  if (!rollout.Run()) return out;
  const sim::Workload& workload = out.task->workload;
  plan::Plan plan;
  plan.graph_hash = GraphHash(graph);
  plan.alignment = workload.alignment;
  plan.schedule = rollout.TakeSchedule();
  plan::GiveAddresses(workload, plan.schedule);
  // State goes below all else.
  IdVector<StayId, bool> is_state;
  for (const sim::Stay& stay : plan.schedule.stays) {
    const bool input = graph.storage(stay.storage).kind == StorageKind::kInput;
    is_state.push_back(stay.begin == sim::Begin::kPresent && (!input || seed % 2 == 0));
    if (is_state.back()) out.state += workload.bytes[stay.storage];
  }
  Bytes next = 0;
  for (const StayId i : is_state.ids()) {
    sim::Stay& stay = plan.schedule.stays[i];
    stay.address = is_state[i] ? std::exchange(next, next + workload.bytes[stay.storage]) : stay.address + out.state;
  }
  for (Bytes& address : plan.schedule.workspace_address) address += address < 0 ? 0 : out.state;
  plan.peak = plan.budget = sim::Height(workload, plan.schedule);
  const std::size_t steps = plan.schedule.steps.size(), count = std::min(static_cast<std::size_t>(groups), steps);
  for (std::size_t g = 0; g < count; ++g) {
    out.groups.emplace_back(g * steps / count);
  }
  out.plan = std::move(plan);
  return out;
}

std::vector<GroupHeights> HeightsOf(const SharedCase& shared) {
  const sim::Schedule& schedule = shared.plan->schedule;
  const IdVector<StepId, Bytes> workspace = sim::StepWorkspace(shared.task->workload, schedule);
  const StepId last = schedule.steps.end_id();
  // Of what lives at the boundary before a step, and of what lives while it runs.
  IdVector<StepId, Bytes> during(schedule.steps.size() + 1, 0), across(schedule.steps.size() + 1, 0);
  for (const sim::Stay& stay : schedule.stays) {
    if (stay.address < shared.state) continue;
    const Bytes height = stay.address + shared.task->workload.bytes[stay.storage] - shared.state;
    for (const StepId k : Ids(stay.from, stay.to)) {
      during[k] = std::max(during[k], height);
      if (k > stay.from) across[k] = std::max(across[k], height);
    }
  }
  for (const StepId k : schedule.steps.ids()) {
    if (!schedule.workspace_address.empty() && schedule.workspace_address[k] >= 0)
      during[k] = std::max(during[k], schedule.workspace_address[k] + workspace[k] - shared.state);
  }
  std::vector<GroupHeights> out;
  for (std::size_t g = 0; g < shared.groups.size(); ++g) {
    const StepId end = g + 1 < shared.groups.size() ? shared.groups[g + 1] : last;
    GroupHeights heights{0, end < last ? across[end] : 0};
    heights.peak = std::max(heights.after, g > 0 ? out.back().after : 0);
    for (const StepId k : Ids(shared.groups[g], end)) heights.peak = std::max(heights.peak, during[k]);
    out.push_back(heights);
  }
  return out;
}

}  // namespace ebbtide::run
