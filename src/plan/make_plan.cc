// Asks a policy for schedules until one has addresses within the budget, and falls back on simpler rules.
#include "plan/make_plan.h"

#include <algorithm>
#include <stdexcept>

#include "graph/hash.h"
#include "plan/place.h"
#include "plan/validate.h"
#include "sim/trim.h"

namespace ebbtide::plan {

namespace {

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

}  // namespace

Planned MakePlan(const TrainingGraph& graph, const Problem& problem, const Policy& policy,
                 const SearchOptions& search) {
  constexpr int kTries = 6;
  const sim::Workload& workload = *problem.workload;
  Planned out;
  if (Floor(problem) > problem.limits.budget) return out;
  Problem asked = problem;
  SearchOptions options = search;
  for (int i = 0; i < kTries; ++i) {
    PolicyResult result = policy.run({.graph = graph, .problem = asked, .search = options});
    out.stopped_early = result.stopped_early;
    out.evaluations += result.evaluations;
    if (IsCancelled(problem)) return out;
    if (!result.schedule) break;
    options.schedules = {*result.schedule};
    Plan plan = Described(graph, problem, policy, Trimmed(problem, *std::move(result.schedule)));
    const IdVector<sim::StepId, Bytes> live = sim::StepBytes(workload, plan.schedule);
    const Bytes live_peak = live.empty() ? 0 : *std::ranges::max_element(live);
    plan.peak =
        Place(workload, plan.schedule, std::min(problem.limits.budget, live_peak + live_peak / 500), problem.cancelled);
    if (IsCancelled(problem)) return out;
    if (plan.peak <= problem.limits.budget) {
      Finish(graph, problem, std::move(plan), out);
      return out;
    }
    // A little less, and more so each time; what was found is a good place to go on from.
    asked.limits.budget -= std::max(plan.peak - problem.limits.budget, (problem.limits.budget / 1000) << i);
    if (result.preferences) options.start = {*std::move(result.preferences)};
  }
  if (policy.run != RunHome) return out;
  // Where addresses are in the way of what the search finds, one of the simple rules may still have a plan, or what
  // needs least memory. On large graphs, each of them takes too long.
  for (const Policy& other : Policies()) {
    if (workload.ops() > kLargeGraph || other.run == RunHome || other.run == RunExact) continue;
    Planned theirs = MakePlan(graph, problem, other, search);
    if (IsCancelled(problem)) return {};
    if (!theirs.plan || (out.plan && out.plan->time <= theirs.plan->time)) continue;
    out.plan = std::move(theirs.plan);
    out.plan->policy = std::string(policy.name);
    out.outcome = std::move(theirs.outcome);
  }
  if (out.plan) return out;
  // Without regard to search.stop: whether there is a plan is not left to the clock.
  Minimum minimum = FindMinimum(problem, problem.cancelled);
  if (IsCancelled(problem)) return {};
  if (minimum.found > problem.limits.budget) return out;
  Plan plan = Described(graph, problem, policy, std::move(minimum.schedule));
  plan.peak = minimum.found;
  Finish(graph, problem, std::move(plan), out);
  return out;
}

Minimum FindMinimum(const Problem& problem, const std::function<bool()>& stop) {
  Minimum out;
  const sim::Workload& workload = *problem.workload;
  out.floor = Floor(problem, &out.op);
  Problem trial = problem;
  Preferences frugal = Neutral(workload);
  const auto works = [&](Bytes budget) {
    trial.limits.budget = budget;
    for (const double power : {1.0, 2.0, 0.5}) {
      for (const Choice choice : {Choice::kKeep, Choice::kSwap}) {
        if (choice == Choice::kSwap && !problem.limits.may_swap) continue;
        Preferences preferences = Neutral(workload);
        std::ranges::fill(preferences.choice, choice);
        preferences.distance_power = power;
        preferences.batch = 8;
        if (Evaluate(trial, preferences) == kInfeasible) continue;
        frugal = std::move(preferences);
        return true;
      }
    }
    return false;
  };
  Bytes low = out.floor - 1, high = problem.live.empty() ? 0 : *std::ranges::max_element(problem.live);
  const auto stopped = [&] { return stop && stop(); };
  if (!stopped() && works(out.floor)) high = out.floor;
  while (high - low > std::max<Bytes>(1, high / 1000) && !stopped()) {
    const Bytes middle = low + (high - low) / 2;
    (works(middle) ? high : low) = middle;
  }
  // The budget that works without addresses gives a schedule; where its addresses reach is what it takes.
  works(high);
  if (IsCancelled(problem)) return out;
  Rollout rollout(trial, frugal, /*record=*/true);
  rollout.Run();
  out.schedule = Trimmed(problem, rollout.TakeSchedule());
  out.found = Place(workload, out.schedule, high, problem.cancelled);
  return out;
}

}  // namespace ebbtide::plan
