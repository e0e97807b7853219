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

}  // namespace

Planned MakePlan(const TrainingGraph& graph, const Problem& problem, const Policy& policy, const SearchOptions& search) {
  constexpr int kTries = 6;
  const sim::Workload& workload = *problem.workload;
  Planned out;
  Problem asked = problem;
  SearchOptions options = search;
  for (int i = 0; i < kTries; ++i) {
    PolicyResult result = policy.run({.graph = graph, .problem = asked, .search = options});
    out.stopped_early = result.stopped_early;
    out.evaluations += result.evaluations;
    if (!result.schedule) return out;
    Plan plan{.graph_name = graph.name, .graph_hash = GraphHash(graph), .policy = std::string(policy.name), .gpu = {},
              .budget = problem.limits.budget, .alignment = workload.alignment, .link = problem.link,
              .schedule = Trimmed(problem, *std::move(result.schedule))};
    const std::vector<Bytes> live = sim::StepBytes(workload, plan.schedule);
    const Bytes live_peak = live.empty() ? 0 : *std::ranges::max_element(live);
    plan.peak = Place(workload, plan.schedule, std::min(problem.limits.budget, live_peak + live_peak / 500));
    if (plan.peak <= problem.limits.budget) {
      out.outcome = sim::Simulate(workload, plan.schedule, problem.link, {.keep_timeline = true});
      plan.time = out.outcome.time;
      plan.plain_time = sim::PlainTime(workload);
      plan.plain_peak = sim::PlainPeak(workload);
      // A policy that breaks the rules is a fault of ours, not of the input.
      if (const Status valid = CheckPlan(plan, graph); !valid) {
        throw std::logic_error(fmt::format("policy {}: {}", policy.name, valid.error().message));
      }
      out.plan = std::move(plan);
      return out;
    }
    // A little less; what was found is a good place to go on from.
    asked.limits.budget -= std::max(plan.peak - problem.limits.budget, problem.limits.budget / 1000);
    if (result.preferences) options.start = {*std::move(result.preferences)};
  }
  return out;
}

Minimum FindMinimum(const Problem& problem) {
  Minimum out;
  const sim::Workload& workload = *problem.workload;
  out.floor = Floor(problem);
  if (!problem.needed.empty()) out.op = OpId(static_cast<std::size_t>(std::ranges::max_element(problem.needed) - problem.needed.begin()));
  Problem trial = problem;
  const auto works = [&](Bytes budget) {
    trial.limits.budget = budget;
    for (const double power : {1.0, 2.0, 0.5}) {
      for (const Choice choice : {Choice::kKeep, Choice::kSwap}) {
        if (choice == Choice::kSwap && !problem.limits.may_swap) continue;
        Preferences preferences = Neutral(workload);
        std::ranges::fill(preferences.choice, choice);
        preferences.distance_power = power;
        preferences.batch = 8;
        if (Evaluate(trial, preferences) != kInfeasible) return true;
      }
    }
    return false;
  };
  Bytes low = out.floor - 1, high = problem.live.empty() ? 0 : *std::ranges::max_element(problem.live);
  if (works(out.floor)) high = out.floor;
  while (high - low > std::max<Bytes>(1, high / 1000)) {
    const Bytes middle = low + (high - low) / 2;
    (works(middle) ? high : low) = middle;
  }
  out.found = high;
  return out;
}

}  // namespace ebbtide::plan
