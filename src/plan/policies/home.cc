// HOME: the whole model at once, searched by a particle swarm in a reduced space, improved by local search.
#include "plan/policies/policy.h"
#include "sim/simulate.h"

namespace ebbtide::plan {
namespace {

// Rollouts of large graphs take longer: as many as make a search of a few seconds.
std::int64_t DefaultEvaluations(const sim::Workload& workload) {
  const auto ops = static_cast<std::int64_t>(std::max<std::size_t>(workload.ops(), 1));
  return std::clamp<std::int64_t>(2'500'000 / ops, 32, 6000);
}

}  // namespace

PolicyResult RunHome(const PolicyInput& input) {
  SearchOptions options = input.search;
  if (options.evaluations == 0) options.evaluations = DefaultEvaluations(*input.problem.workload);
  if (!options.start.empty()) options.evaluations /= 4;  // it was searched before, for a budget hardly larger
  const SearchResult found = Swarm(input.problem, options);
  PolicyResult out{
      .schedule = {}, .stopped_early = found.stopped_early, .evaluations = found.evaluations, .preferences = {}};
  Nanos best = kInfeasible;
  if (found.time != kInfeasible) {
    Rollout rollout(input.problem, found.best, /*record=*/true);
    if (rollout.Run()) {
      out.schedule = rollout.TakeSchedule();
      out.preferences = found.best;
      best = sim::Simulate(*input.problem.workload, *out.schedule, input.problem.link).time;
    }
  }
  // Where a simple rule does better, its schedule is taken. Those that look at every storage for each they give up are
  // too slow on large graphs.
  for (const auto rule : {RunNone, RunDtr, RunCapuchin, RunSuperNeurons, RunCheckpointSqrt, RunVdnnDyn}) {
    if (input.problem.workload->ops() > kLargeGraph && (rule == RunDtr || rule == RunCapuchin)) continue;
    PolicyResult other = rule(input);
    if (!other.schedule) continue;
    const Nanos time = sim::Simulate(*input.problem.workload, *other.schedule, input.problem.link).time;
    if (time < best) best = time, out.schedule = std::move(other.schedule);
  }
  return out;
}

}  // namespace ebbtide::plan
