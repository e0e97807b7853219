// HOME: the whole model at once, by a particle swarm and local search, twice over: preferences that a rollout turns
// into a schedule, and decisions that are the schedule. Each begins with what is known by then, and the fastest is
// taken.
#include <algorithm>

#include "plan/decide/backward.h"
#include "plan/decide/decide.h"
#include "plan/decide/frugal.h"
#include "plan/policies/policy.h"
#include "sim/simulate.h"

namespace ebbtide::plan {
namespace {

// Rollouts of large graphs take longer: as many as make a search of a second or two. Where nothing is copied, decisions
// are the better of the two, and rollouts only begin.
std::int64_t DefaultEvaluations(const Problem& problem) {
  const auto ops = static_cast<std::int64_t>(std::max<std::size_t>(problem.workload->ops(), 1));
  return problem.limits.may_swap ? std::clamp<std::int64_t>(1'500'000 / ops, 32, 6000)
                                 : std::clamp<std::int64_t>(625'000 / ops, 8, 1500);
}

constexpr std::int64_t kShareWithCopies = 48, kMoreWhereItPays = 4;
constexpr int kTriesBackward = 3;
constexpr std::int64_t kMoreWhereWanted = 4;  // work on decisions from the end to the beginning

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

// Decisions to begin with. `is_wanted`: nothing else is within the budget.
std::optional<sim::Schedule> WithoutCopies(const Problem& problem, bool is_wanted) {
  const Units units = FindUnits(problem);
  std::int64_t work = kBackwardWork, more = kMoreWhereWanted * kBackwardWork, sets = kFrugalWork;
  std::optional<std::vector<RunAgain>> runs = BackwardRuns(problem, units, problem.limits.budget, kTriesBackward, work);
  if (!runs && is_wanted) runs = BackwardRuns(problem, units, problem.limits.budget, 1, more);
  if (!runs && is_wanted) runs = FrugalRuns(problem, units, problem.limits.budget, sets);
  if (!runs) return std::nullopt;
  Retention retention(problem, units);
  retention.Load(*runs);
  if (retention.peak() > problem.limits.budget) return std::nullopt;
  return retention.ToSchedule();
}

}  // namespace

PolicyResult RunHome(const PolicyInput& input) {
  const Problem& problem = input.problem;
  SearchOptions options = input.search;
  std::int64_t changes =
      options.evaluations > 0 ? kChangesPerRollout * options.evaluations : DefaultChanges(*problem.workload);
  if (options.evaluations == 0) {
    options.evaluations = DefaultEvaluations(problem);
  } else if (!problem.limits.may_swap) {
    options.evaluations = std::max<std::int64_t>(options.evaluations / 4, 1);
  }
  // It was searched before, for a budget hardly larger.
  if (!options.start.empty()) options.evaluations /= 4, changes /= 4;
  SearchResult found = Swarm(problem, options);
  PolicyResult out{.schedule = {},
                   .stopped_early = found.stopped_early,
                   .evaluations = found.evaluations,
                   .preferences = {},
                   .close = {}};
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
  // Beside copies a few changes are tried; in a large graph they take less time than to load a schedule for them.
  const bool is_worth_it = !best.schedule || !problem.limits.may_swap || problem.workload->ops() <= kLargeGraph;
  if (problem.limits.may_recompute && is_worth_it && IsShort(problem) && !IsLate(problem) &&
      !(options.stop && options.stop())) {
    DecideOptions decide{.changes = changes,
                         .seed = options.seed,
                         .threads = options.threads,
                         .start = options.schedules,
                         .progress = {},
                         .stop = options.stop};
    // Copies stay as they are: there is less to decide, and where a few changes gain nothing, nor do many.
    if (problem.limits.may_swap) decide.changes /= kShareWithCopies;
    if (!problem.limits.may_swap) best.Offer(WithoutCopies(problem, /*is_wanted=*/!best.schedule));
    if (best.schedule) decide.start.insert(decide.start.begin(), *best.schedule);
    DecideResult decided = Decide(problem, decide);
    out.evaluations += decided.changes;
    if (best.Offer(std::move(decided.schedule)) && problem.limits.may_swap && !IsLate(problem)) {
      decide.changes *= kMoreWhereItPays;
      decide.start.insert(decide.start.begin(), *best.schedule);
      decided = Decide(problem, decide);
      out.evaluations += decided.changes;
      best.Offer(std::move(decided.schedule));
    }
  }
  out.schedule = std::move(best.schedule);
  out.close = std::move(found.close);
  return out;
}

}  // namespace ebbtide::plan
