// Asks a policy for schedules until one has addresses within the budget, and falls back on simpler rules. Behind the
// deadline nothing more is tried, but for the most frugal preferences where there is no plan yet.
#include "plan/make_plan.h"

#include <algorithm>
#include <stdexcept>

#include "graph/hash.h"
#include "plan/decide/decide.h"
#include "plan/decide/frugal.h"
#include "plan/decide/reach.h"
#include "plan/place.h"
#include "plan/validate.h"
#include "sim/trim.h"

namespace ebbtide::plan {

namespace {

constexpr int kOtherSeeds = 3;            // searches for the same budget, where one takes a second
constexpr std::size_t kQuickGraph = 300;  // ... in ops
constexpr std::size_t kManyStays = 20'000;
constexpr std::size_t kMostOpsToReach = 12'000;  // of graphs for which decisions are looked for op by op
constexpr std::int64_t kHardPacking = 400'000;   // placements tried before a schedule is given up for its addresses

// Stays as short as they can be for the same time.
sim::Schedule Trimmed(const Problem& problem, sim::Schedule schedule) {
  const Nanos time = sim::Simulate(*problem.workload, schedule, problem.link).time;
  sim::Schedule out = schedule;
  sim::Trim(*problem.workload, problem.link, out);
  return sim::Simulate(*problem.workload, out, problem.link).time <= time ? out : schedule;
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

// Preferences that need little memory are rolled out until one keeps the budget, whatever the deadline says.
std::optional<Preferences> FrugalPreferences(const Problem& problem) {
  for (const double power : {1.0, 2.0, 0.5}) {
    for (const Choice choice : {Choice::kKeep, Choice::kSwap}) {
      if (choice == Choice::kSwap && !problem.limits.may_swap) continue;
      Preferences preferences = Neutral(*problem.workload);
      std::ranges::fill(preferences.choice, choice);
      preferences.distance_power = power;
      preferences.batch = 8;
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

Planned MakePlan(const TrainingGraph& graph, const Problem& problem, const Policy& policy, const SearchOptions& search,
                 const Minimum* minimum) {
  constexpr int kTries = 6 + kOtherSeeds;
  const sim::Workload& workload = *problem.workload;
  Planned out;
  if (Floor(problem) > problem.limits.budget) return out;
  Problem asked = problem;
  SearchOptions options = search;
  if (minimum && policy.run == RunHome && !minimum->schedule.steps.empty()) options.schedules = {minimum->schedule};
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
    plan.peak = Place(workload, plan.schedule, std::min(problem.limits.budget, live_peak + live_peak / 500),
                      problem.cancelled, problem.deadline.ButNotBefore(kSecondsForAddresses));
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

// The decisions with the lowest peak that a search for each op's needs finds, between the floor and `known`, which is
// the peak of a schedule; none: none are lower.
std::optional<sim::Schedule> FrugalDecisions(const Problem& problem, Bytes floor, Bytes known) {
  if (problem.workload->ops() > kMostOpsToReach || problem.limits.may_swap) return std::nullopt;
  const Units units = FindUnits(problem);
  std::optional<std::vector<RunAgain>> best;
  // A larger budget is not always easier: the smallest that works is taken, and those above it are not looked at.
  for (const double above : {1.03, 1.06, 1.1, 1.2, 1.4, 1.8}) {
    const auto budget = static_cast<Bytes>(above * static_cast<double>(floor));
    if (best || budget >= known || IsLate(problem)) break;
    std::int64_t work = kFrugalWork / 3;
    best = FrugalRuns(problem, units, budget, work);
  }
  if (!best) return std::nullopt;
  Retention retention(problem, units);
  retention.Load(*best);
  return retention.ToSchedule();
}

}  // namespace

Minimum FindMinimum(const Problem& problem, const MinimumOptions& options) {
  Minimum out;
  const sim::Workload& workload = *problem.workload;
  out.floor = FloorOfSets(problem, &out.op);
  const auto offer = [&](sim::Schedule schedule) {
    schedule = Trimmed(problem, std::move(schedule));
    const IdVector<sim::StepId, Bytes> live = sim::StepBytes(workload, schedule);
    const Bytes peak = live.empty() ? 0 : *std::ranges::max_element(live);
    if (out.found > 0 && peak >= out.found) return;
    const Bytes height =
        Place(workload, schedule, peak, problem.cancelled, problem.deadline.ButNotBefore(kSecondsForAddresses));
    if (out.found > 0 && height >= out.found) return;
    out.found = height;
    out.time = sim::Simulate(workload, schedule, problem.link).time;
    out.schedule = std::move(schedule);
  };
  sim::Schedule frugal = FrugalRollout(problem, out.floor);
  if (IsCancelled(problem)) return out;
  const bool goes_on = problem.limits.may_recompute && !IsLate(problem);
  // What copies would do is not decided here; the rollout has it.
  const std::int64_t default_changes = DefaultChanges(workload) / (problem.limits.may_swap ? 12 : 1);
  const std::int64_t changes = options.changes > 0 ? options.changes : default_changes;
  std::vector<sim::Schedule> start = {frugal};
  offer(std::move(frugal));
  if (IsCancelled(problem)) return out;
  if (!goes_on) return out;
  if (std::optional<sim::Schedule> reached = FrugalDecisions(problem, out.floor, out.found)) {
    start.push_back(*reached);
    offer(*std::move(reached));
  }
  if (IsCancelled(problem) || out.found - out.floor <= out.floor / 100) return out;
  offer(DecideLowest(problem, {.changes = changes,
                               .seed = options.seed,
                               .threads = options.threads,
                               .start = std::move(start),
                               .progress = {},
                               .stop = {}}));
  return out;
}

}  // namespace ebbtide::plan
