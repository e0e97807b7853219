// HOME: the whole model at once, by a particle swarm and local search, twice over: preferences that a rollout turns
// into a schedule, and decisions that are the schedule. Each begins with what is known by then, and the fastest is
// taken.
#include <algorithm>

#include "plan/decide/decide.h"
#include "plan/decide/frugal.h"
#include "plan/policies/policy.h"
#include "sim/simulate.h"

namespace ebbtide::plan {
namespace {

// Rollouts of large graphs take longer: as many as make a search of a few seconds.
std::int64_t DefaultEvaluations(const sim::Workload& workload) {
  const auto ops = static_cast<std::int64_t>(std::max<std::size_t>(workload.ops(), 1));
  return std::clamp<std::int64_t>(2'500'000 / ops, 32, 6000);
}

// The fastest of what was found.
class Best {
 public:
  explicit Best(const Problem& problem) : problem_(problem) {}
  bool Offer(std::optional<sim::Schedule> schedule) {
    if (!schedule) return false;
    const sim::Outcome outcome = sim::Simulate(*problem_.workload, *schedule, problem_.link);
    if (outcome.time >= time || outcome.host_peak > problem_.limits.host) return false;
    time = outcome.time;
    this->schedule = std::move(schedule);
    return true;
  }

  Nanos time = kInfeasible;
  std::optional<sim::Schedule> schedule;

 private:
  const Problem& problem_;
};

bool IsShort(const Problem& problem) {
  return !problem.live.empty() && *std::ranges::max_element(problem.live) > problem.limits.budget;
}

}  // namespace

PolicyResult RunHome(const PolicyInput& input) {
  const Problem& problem = input.problem;
  SearchOptions options = input.search;
  std::int64_t changes =
      options.evaluations > 0 ? kChangesPerRollout * options.evaluations : DefaultChanges(*problem.workload);
  if (options.evaluations == 0) options.evaluations = DefaultEvaluations(*problem.workload);
  // Where nothing is copied, decisions are the better of the two.
  if (!problem.limits.may_swap) options.evaluations = std::max<std::int64_t>(options.evaluations / 4, 1);
  // It was searched before, for a budget hardly larger.
  if (!options.start.empty()) options.evaluations /= 4, changes /= 4;
  const SearchResult found = Swarm(problem, options);
  PolicyResult out{
      .schedule = {}, .stopped_early = found.stopped_early, .evaluations = found.evaluations, .preferences = {}};
  Best best(problem);
  if (found.time != kInfeasible) {
    Rollout rollout(problem, found.best, /*record=*/true);
    rollout.FinishEvenLate();
    if (rollout.Run() && best.Offer(rollout.TakeSchedule())) out.preferences = found.best;
  }
  // Where a simple rule does better, its schedule is taken. Those that look at every storage for each they give up are
  // too slow on large graphs.
  for (const auto rule : {RunNone, RunDtr, RunCapuchin, RunSuperNeurons, RunCheckpointSqrt, RunVdnnDyn}) {
    if (problem.workload->ops() > kLargeGraph && (rule == RunDtr || rule == RunCapuchin)) continue;
    if (IsLate(problem)) {
      out.stopped_early = true;
      break;
    }
    best.Offer(rule(input).schedule);
  }
  if (problem.limits.may_recompute && IsShort(problem) && !IsLate(problem) && !(options.stop && options.stop())) {
    DecideOptions decide{.changes = changes,
                         .seed = options.seed,
                         .threads = options.threads,
                         .start = options.schedules,
                         .progress = {},
                         .stop = options.stop};
    if (problem.limits.may_swap) decide.changes /= 12;  // copies stay as they are: there is less to decide
    if (best.schedule) decide.start.insert(decide.start.begin(), *best.schedule);
    if (!best.schedule && !problem.limits.may_swap) {
      const Units units = FindUnits(problem);
      std::int64_t work = kFrugalWork;
      if (const auto runs = FrugalRuns(problem, units, problem.limits.budget, work)) {
        Retention retention(problem, units);
        retention.Load(*runs);
        decide.start.insert(decide.start.begin(), retention.ToSchedule());
      }
    }
    DecideResult decided = Decide(problem, decide);
    out.evaluations += decided.changes;
    best.Offer(std::move(decided.schedule));
  }
  out.schedule = std::move(best.schedule);
  return out;
}

}  // namespace ebbtide::plan
