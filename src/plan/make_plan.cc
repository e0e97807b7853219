// Asks a policy for schedules until one has addresses within the budget, and falls back on simpler rules. Behind the
// deadline nothing more is tried, but for the most frugal preferences where there is no plan yet.
#include "plan/make_plan.h"

#include <algorithm>
#include <stdexcept>

#include "graph/hash.h"
#include "plan/decide/backward.h"
#include "plan/decide/decide.h"
#include "plan/decide/frugal.h"
#include "plan/decide/reach.h"
#include "plan/fit_addresses.h"
#include "plan/place.h"
#include "plan/validate.h"
#include "sim/trim.h"

namespace ebbtide::plan {

namespace {

constexpr int kOtherSeeds = 3;            // searches for the same budget, where one takes a second
constexpr std::size_t kQuickGraph = 300;  // ... in ops
constexpr std::size_t kManyStays = 20'000;
constexpr std::size_t kMostOpsToReach = 12'000;  // of graphs for which decisions are looked for op by op
constexpr std::int64_t kQuickPacking = 1;        // first fit alone
constexpr int kTriesOfDecisions = 6, kTriesOnQuick = 24, kFailures = 3;
constexpr std::int64_t kShortPacking = 6000;
constexpr std::int64_t kPackingOfDecisions = 20'000, kPackingOnQuick = 60'000;
constexpr std::int64_t kHardPacking = 400'000;  // placements tried before a schedule is given up for its addresses

sim::Schedule Trimmed(const Problem& problem, sim::Schedule schedule) {
  return sim::Trimmed(*problem.workload, problem.link, std::move(schedule));
}

Plan Described(const TrainingGraph& graph, const Problem& problem, const Policy& policy, sim::Schedule schedule) {
  Plan plan;
  plan.graph_name = graph.name;
  plan.graph_hash = GraphHash(graph);
  plan.policy = std::string(policy.name);
  plan.budget = problem.limits.budget;
  plan.alignment = problem.workload->alignment;
  plan.link = problem.link;
  plan.schedule = std::move(schedule);
  return plan;
}

void Finish(const TrainingGraph& graph, const Problem& problem, Plan plan, Planned& out) {
  const sim::Workload& workload = *problem.workload;
  out.outcome = sim::Simulate(workload, plan.schedule, problem.link, {.keep_timeline = true});
  plan.time = out.outcome.time;
  plan.plain_time = sim::PlainTime(workload);
  plan.plain_peak = sim::PlainPeak(workload);
  // A policy that breaks the rules is a fault of ours, not of the input.
  if (const Status valid = CheckPlan(plan, graph); !valid) {
    throw std::logic_error(fmt::format("policy {}: {}", plan.policy, valid.error().message));
  }
  out.plan = std::move(plan);
}

// Of the time that is left, a search gets this share; the rest is for addresses, which have so many seconds at least.
constexpr double kShareOfSearch = 0.8, kSecondsForAddresses = 0.25;

enum class Frugality : std::uint8_t { kMakeAgain, kCopy, kOnlyCopy };

std::vector<Frugality> FrugalitiesOf(const Problem& problem) {
  if (!problem.limits.may_swap) return {Frugality::kMakeAgain};
  return {Frugality::kMakeAgain, Frugality::kCopy, Frugality::kOnlyCopy};
}

Preferences MakeFrugal(const sim::Workload& workload, Frugality frugality, double distance_power) {
  Preferences out = Neutral(workload);
  if (frugality != Frugality::kMakeAgain) std::ranges::fill(out.choice, Choice::kSwap);
  out.nothing_again = frugality == Frugality::kOnlyCopy;
  out.distance_power = distance_power;
  out.batch = 8;
  return out;
}

// Preferences that need little memory are rolled out until one keeps the budget, whatever the deadline says.
std::optional<Preferences> FrugalPreferences(const Problem& problem) {
  for (const double power : {1.0, 2.0, 0.5}) {
    for (const Frugality frugality : FrugalitiesOf(problem)) {
      const Preferences preferences = MakeFrugal(*problem.workload, frugality, power);
      Rollout rollout(problem, preferences, /*record=*/false);
      rollout.FinishEvenLate();
      if (rollout.Run()) return preferences;
    }
  }
  return std::nullopt;
}

sim::Schedule RolledOut(const Problem& problem, const Preferences& preferences) {
  Rollout rollout(problem, preferences, /*record=*/true);
  rollout.FinishEvenLate();
  rollout.Run();
  return rollout.TakeSchedule();
}

// A schedule from frugal preferences alone, for when there is no time to look for more. `height` is where it reaches.
std::optional<sim::Schedule> FrugalSchedule(Problem problem, Bytes& height) {
  const int tries = problem.workload->ops() > kLargeGraph ? 1 : 4;
  const Bytes budget = problem.limits.budget;
  for (int i = 0; i < tries; ++i) {
    const std::optional<Preferences> preferences = FrugalPreferences(problem);
    if (!preferences) return std::nullopt;
    sim::Schedule schedule = Trimmed(problem, RolledOut(problem, *preferences));
    height = Place(*problem.workload, schedule, budget, problem.cancelled, Deadline::After(kSecondsForAddresses));
    if (height <= budget) return schedule;
    problem.limits.budget -= std::max(height - budget, budget / 50);
  }
  return std::nullopt;
}

}  // namespace

// Takes the smallest plan where there is no faster one.
void TakeSmallest(const TrainingGraph& graph, const Problem& problem, const Policy& policy, const Minimum& minimum,
                  Planned& out) {
  if (minimum.found > problem.limits.budget || minimum.schedule.steps.empty()) return;
  if (out.plan && out.plan->time <= minimum.time) return;
  Plan plan = Described(graph, problem, policy, minimum.schedule);
  plan.peak = minimum.found;
  Finish(graph, problem, std::move(plan), out);
}

bool LooksBelowTheMinimum(const Problem& problem) {
  return problem.deadline.exists() || (!problem.limits.may_swap && problem.workload->ops() < kQuickGraph);
}

Planned MakePlan(const TrainingGraph& graph, const Problem& problem, const Policy& policy, const SearchOptions& search,
                 const Minimum* minimum) {
  constexpr int kTries = 6 + kOtherSeeds;
  const sim::Workload& workload = *problem.workload;
  Planned out;
  if (Floor(problem) > problem.limits.budget) return out;
  const bool is_below = minimum && problem.limits.budget < minimum->found;
  if (is_below && policy.run == RunHome && !LooksBelowTheMinimum(problem)) return out;
  Problem asked = problem;
  SearchOptions options = search;
  if (minimum && policy.run == RunHome && !minimum->schedule.steps.empty()) options.schedules = {minimum->schedule};
  const bool may_fit = policy.run == RunHome && problem.limits.may_swap && workload.ops() <= kLargeGraph;
  for (int i = 0; i < kTries; ++i) {
    asked.deadline = problem.deadline.Part(kShareOfSearch);
    PolicyResult result = policy.run({.graph = graph, .problem = asked, .search = options});
    out.stopped_early = result.stopped_early || (!result.schedule && problem.deadline.Passed());
    out.evaluations += result.evaluations;
    if (IsCancelled(problem)) return out;
    if (!result.schedule) break;
    options.schedules.insert(options.schedules.begin(), *result.schedule);
    Plan plan = Described(graph, problem, policy, Trimmed(problem, *std::move(result.schedule)));
    const IdVector<sim::StepId, Bytes> live = sim::StepBytes(workload, plan.schedule);
    const Bytes live_peak = live.empty() ? 0 : *std::ranges::max_element(live);
    plan.peak =
        Place(workload, plan.schedule, std::min(problem.limits.budget, live_peak + live_peak / 500), problem.cancelled,
              problem.deadline.ButNotBefore(kSecondsForAddresses), may_fit ? kShortPacking : 0);
    // Where copies are allowed, a little less memory costs less than a harder packing does.
    const bool may_pack_harder = !problem.limits.may_swap && plan.schedule.stays.size() < kManyStays;
    if (plan.peak > problem.limits.budget && may_pack_harder && !IsLate(problem)) {
      plan.peak =
          Place(workload, plan.schedule, problem.limits.budget, problem.cancelled, problem.deadline, kHardPacking);
    }
    if (IsCancelled(problem)) return out;
    if (plan.peak <= problem.limits.budget) {
      Finish(graph, problem, std::move(plan), out);
      if (minimum && policy.run == RunHome) TakeSmallest(graph, problem, policy, *minimum, out);
      return out;
    }
    if (problem.deadline.Passed()) {
      out.stopped_early = true;
      break;
    }
    // What the search has seen beside its best may have addresses, for this budget or for a little less.
    if (may_fit && i == 0) {
      std::vector<Preferences> seen = std::move(result.close);
      if (result.preferences) seen.insert(seen.begin(), *result.preferences);
      const Nanos time = sim::Simulate(workload, plan.schedule, problem.link).time;
      std::optional<Fitted> fitted = FitAddresses(problem, seen, time, search);
      if (IsCancelled(problem)) return out;
      if (fitted) {
        plan.schedule = std::move(fitted->schedule);
        plan.peak = fitted->height;
        Finish(graph, problem, std::move(plan), out);
        if (minimum) TakeSmallest(graph, problem, policy, *minimum, out);
        return out;
      }
    }
    // Another search may find a schedule that is as fast and has addresses.
    if (i < kOtherSeeds && policy.run == RunHome && !problem.limits.may_swap && workload.ops() < kQuickGraph) {
      ++options.seed;
      options.schedules.clear();
      continue;
    }
    // A little less, and more so each time; what was found is a good place to go on from.
    asked.limits.budget -=
        std::max(plan.peak - problem.limits.budget, (problem.limits.budget / 1000) << std::min(i, 5));
    if (result.preferences) options.start = {*std::move(result.preferences)};
  }
  if (policy.run != RunHome) return out;
  // Where addresses are in the way of what the search finds, one of the simple rules may still have a plan, or what
  // needs least memory. On large graphs, each of them takes too long.
  for (const Policy& other : Policies()) {
    if (workload.ops() > kLargeGraph || other.run == RunHome || other.run == RunExact) continue;
    if (problem.deadline.Passed()) break;
    Planned theirs = MakePlan(graph, problem, other, search);
    if (IsCancelled(problem)) return {};
    if (!theirs.plan || (out.plan && out.plan->time <= theirs.plan->time)) continue;
    out.plan = std::move(theirs.plan);
    out.plan->policy = std::string(policy.name);
    out.outcome = std::move(theirs.outcome);
  }
  if (minimum) TakeSmallest(graph, problem, policy, *minimum, out);
  if (!out.plan && problem.deadline.Passed()) {
    out.stopped_early = true;
    Bytes height = 0;
    std::optional<sim::Schedule> frugal = FrugalSchedule(problem, height);
    if (!frugal || IsCancelled(problem)) return out;
    Plan plan = Described(graph, problem, policy, *std::move(frugal));
    plan.peak = height;
    Finish(graph, problem, std::move(plan), out);
  }
  if (minimum || out.plan) return out;
  const Minimum found = FindMinimum(
      problem, {.changes = kChangesPerRollout * search.evaluations, .seed = search.seed, .threads = search.threads});
  if (IsCancelled(problem)) return {};
  TakeSmallest(graph, problem, policy, found, out);
  return out;
}

namespace {

// The schedule that the simplest rules lead to at the smallest budget at which any of them works.
sim::Schedule FrugalRollout(const Problem& problem, Bytes floor) {
  const sim::Workload& workload = *problem.workload;
  Problem trial = problem;
  Preferences frugal = Neutral(workload);
  const auto works = [&](Bytes budget) {
    trial.limits.budget = budget;
    std::optional<Preferences> found = FrugalPreferences(trial);
    if (found) frugal = *std::move(found);
    return found.has_value();
  };
  Bytes low = floor - 1, high = problem.live.empty() ? 0 : *std::ranges::max_element(problem.live);
  if (!IsLate(problem) && works(floor)) high = floor;
  while (high - low > std::max<Bytes>(1, high / 1000) && !IsLate(problem)) {
    const Bytes middle = low + (high - low) / 2;
    (works(middle) ? high : low) = middle;
  }
  works(high);
  if (IsCancelled(problem)) return {};
  return RolledOut(trial, frugal);
}

sim::Schedule ScheduleOf(const Problem& problem, const Units& units, const std::vector<RunAgain>& runs) {
  Retention retention(problem, units);
  retention.Load(runs);
  return retention.ToSchedule();
}

// The decisions with the lowest peak that a search for each op's needs finds, between the floor and `known`, which is
// the peak of a schedule; none: none are lower.
std::optional<sim::Schedule> FrugalDecisions(const Problem& problem, const Units& units, Bytes floor, Bytes known) {
  std::optional<std::vector<RunAgain>> best;
  // A larger budget is not always easier: the smallest that works is taken, and those above it are not looked at.
  for (const double above : {1.03, 1.06, 1.1, 1.2, 1.4, 1.8}) {
    const auto budget = static_cast<Bytes>(above * static_cast<double>(floor));
    if (best || budget >= known || IsLate(problem)) break;
    std::int64_t work = kFrugalWork / 3;
    best = FrugalRuns(problem, units, budget, work);
  }
  if (!best) return std::nullopt;
  return ScheduleOf(problem, units, *best);
}

}  // namespace

namespace {

// The smallest plan of those that are offered.
class Smallest {
 public:
  Smallest(const Problem& problem, Minimum& out) : problem_(problem), out_(out) {}

  // Whether it is smaller than all before it. Its addresses are looked for with so many evaluations; 0: as many as
  // usual.
  bool Offer(sim::Schedule schedule, std::int64_t evaluations = 0) {
    const sim::Workload& workload = *problem_.workload;
    schedule = Trimmed(problem_, std::move(schedule));
    const Bytes peak = PeakOf(schedule);
    if (out_.found > 0 && peak >= out_.found) return false;
    const Bytes height = Place(workload, schedule, peak, problem_.cancelled,
                               problem_.deadline.ButNotBefore(kSecondsForAddresses), evaluations);
    if (out_.found > 0 && height >= out_.found) return false;
    const sim::Outcome outcome = sim::Simulate(workload, schedule, problem_.link);
    if (outcome.host_peak > problem_.limits.host) return false;
    out_.found = height;
    out_.time = outcome.time;
    out_.schedule = std::move(schedule);
    return true;
  }

  // What lives at once is not all: of schedules for budgets between the floor and the smallest so far, some have
  // better addresses than the one that has the least at once.
  void TryBetween() {
    Problem trial = problem_;
    // Halves, quarters and so on of the way.
    const std::size_t tries = std::clamp<std::size_t>(kOpsOfTries / std::max<std::size_t>(problem_.workload->ops(), 1),
                                                      kLeastTries, kMostTries);
    std::size_t tried = 0;
    for (std::size_t parts = 2; tried < tries; parts *= 2) {
      for (std::size_t i = 1; i < parts && tried < tries; i += 2, ++tried) {
        for (const Frugality frugality : FrugalitiesOf(problem_)) {
          if (IsLate(problem_)) return;
          trial.limits.budget = out_.floor + static_cast<Bytes>(static_cast<double>(out_.found - out_.floor) *
                                                                static_cast<double>(i) / static_cast<double>(parts));
          const Preferences preferences = MakeFrugal(*problem_.workload, frugality, 1);
          Rollout rollout(trial, preferences, /*record=*/true);
          if (rollout.Run()) Offer(rollout.TakeSchedule(), kQuickPacking);
        }
      }
    }
  }

  // Decisions with more memory run less again, and what runs less again has fewer stays to find addresses for. Other
  // seeds find others.
  void DecideBetween(DecideOptions options) {
    Problem trial = problem_;
    const bool is_quick = problem_.workload->ops() < kQuickGraph;
    options.changes /= is_quick ? kTriesOnQuick / 2 : kTriesOfDecisions;
    Bytes low = PeakOf(options.start.front());
    int failed = 0;
    for (int i = 0; i < (is_quick ? kTriesOnQuick : kTriesOfDecisions); ++i) {
      if (out_.found - low <= low / 200 || IsLate(problem_)) break;
      trial.limits.budget = low + (out_.found - low) / 2;
      options.seed += 1;
      DecideResult decided = Decide(trial, options);
      if (decided.schedule && Offer(*std::move(decided.schedule), is_quick ? kPackingOnQuick : kPackingOfDecisions)) {
        failed = 0;
      } else if (++failed % kFailures == 0) {
        low = trial.limits.budget;
      }
    }
  }

 private:
  Bytes PeakOf(const sim::Schedule& schedule) const {
    const IdVector<sim::StepId, Bytes> live = sim::StepBytes(*problem_.workload, schedule);
    return live.empty() ? 0 : *std::ranges::max_element(live);
  }

  static constexpr std::size_t kOpsOfTries = 8000, kLeastTries = 3, kMostTries = 15;

  const Problem& problem_;
  Minimum& out_;
};

}  // namespace

Minimum FindMinimum(const Problem& problem, const MinimumOptions& options) {
  Minimum out;
  const sim::Workload& workload = *problem.workload;
  out.floor = FloorOfSets(problem, &out.op);
  Smallest smallest(problem, out);
  sim::Schedule frugal = FrugalRollout(problem, out.floor);
  if (IsCancelled(problem)) return out;
  const bool goes_on = problem.limits.may_recompute && !IsLate(problem);
  // What copies would do is not decided here; the rollout has it.
  const std::int64_t default_changes = DefaultChanges(workload) / (problem.limits.may_swap        ? 12
                                                                   : workload.ops() < kQuickGraph ? 1
                                                                                                  : 2);
  const std::int64_t changes = options.changes > 0 ? options.changes : default_changes;
  std::vector<sim::Schedule> start = {frugal};
  smallest.Offer(std::move(frugal), kShortPacking);
  if (IsCancelled(problem)) return out;
  if (workload.ops() <= kLargeGraph) smallest.TryBetween();
  if (IsCancelled(problem) || !goes_on) return out;
  if (workload.ops() <= kMostOpsToReach && !problem.limits.may_swap) {
    const Units units = FindUnits(problem);
    const auto offer = [&](sim::Schedule schedule) {
      start.push_back(schedule);
      smallest.Offer(std::move(schedule));
    };
    const std::vector<std::vector<RunAgain>> lower = LowestBackwardRuns(problem, units, out.floor, out.found);
    for (const std::vector<RunAgain>& runs : lower) {
      // Those for more memory may have the better addresses.
      if (&runs != &lower.back()) smallest.Offer(ScheduleOf(problem, units, runs));
    }
    if (!lower.empty()) offer(ScheduleOf(problem, units, lower.back()));
    if (auto reached = FrugalDecisions(problem, units, out.floor, out.found)) offer(*std::move(reached));
  }
  if (IsCancelled(problem) || out.found - out.floor <= out.floor / 100) return out;
  DecideOptions decide{.changes = changes,
                       .seed = options.seed,
                       .threads = options.threads,
                       .start = std::move(start),
                       .progress = {},
                       .stop = {}};
  sim::Schedule lowest = DecideLowest(problem, decide);
  smallest.Offer(lowest);
  if (problem.limits.may_swap) return out;
  decide.start = {std::move(lowest), out.schedule};
  smallest.DecideBetween(decide);
  return out;
}

}  // namespace ebbtide::plan
