// The best there is, for small graphs: Checkmate's integer program where nothing is swapped; with swaps, every choice
// for up to 12 candidates. Both begin with what home finds, and say so when they stop before all is tried.
#include <algorithm>

#include "plan/policies/checkmate.h"
#include "plan/policies/policy.h"
#include "sim/simulate.h"

namespace ebbtide::plan {
namespace {

constexpr std::size_t kMostCandidates = 12;  // 3^12 = 531,441 choices
constexpr std::int64_t kMostRollouts = 600'000;

PolicyResult RunProgram(const PolicyInput& input, PolicyResult found) {
  const Problem& problem = input.problem;
  if (IsLate(problem)) {
    found.stopped_early = true;
    return found;
  }
  // A limit on what is tried leaves no room for the program, which cannot be asked to keep it.
  if (problem.workload->ops() > kExactOps || input.search.evaluations > 0) {
    found.stopped_early = true;
    return found;
  }
  CheckmateOptions options;
  if (found.schedule) options.better_than = sim::Simulate(*problem.workload, *found.schedule, problem.link).time;
  CheckmateResult result = Checkmate(problem, options);
  found.stopped_early = !result.proved;
  if (result.schedule) found.schedule = std::move(result.schedule);
  return found;
}

PolicyResult RunChoices(const PolicyInput& input, PolicyResult found) {
  const Problem& problem = input.problem;
  const Candidates candidates = FindCandidates(problem);
  // The largest, where there are too many.
  std::vector<CandidateId> groups;
  for (const CandidateId i : candidates.groups.ids()) groups.push_back(i);
  const auto bytes = [&](CandidateId i) {
    Bytes sum = 0;
    for (const StorageId s : candidates.groups[i]) sum += problem.workload->bytes[s];
    return sum;
  };
  std::ranges::stable_sort(groups, std::greater<>(), bytes);
  found.stopped_early = groups.size() > kMostCandidates;
  groups.resize(std::min(groups.size(), kMostCandidates));

  Nanos best = found.schedule ? sim::Simulate(*problem.workload, *found.schedule, problem.link).time : kInfeasible;
  const int choices = problem.limits.may_recompute ? 3 : 2;
  std::vector<int> digits(groups.size(), 0);
  Preferences preferences = Neutral(*problem.workload), best_preferences;
  const std::int64_t most = input.search.evaluations > 0 ? input.search.evaluations : kMostRollouts;
  for (std::int64_t tried = 0;; ++tried) {
    if (tried >= most || (tried % 64 == 0 && (IsLate(problem) || (input.search.stop && input.search.stop())))) {
      found.stopped_early = true;
      break;
    }
    for (std::size_t i = 0; i < groups.size(); ++i) {
      for (const StorageId s : candidates.groups[groups[i]]) preferences.choice[s] = static_cast<Choice>(digits[i]);
    }
    ++found.evaluations;
    const Nanos time = Evaluate(problem, preferences, best);
    if (time < best) best = time, best_preferences = preferences;
    std::size_t i = 0;
    while (i < digits.size() && ++digits[i] == choices) digits[i++] = 0;
    if (i == digits.size()) break;
  }
  if (!best_preferences.choice.empty()) {
    Rollout rollout(problem, best_preferences, /*record=*/true);
    rollout.FinishEvenLate();
    if (rollout.Run()) found.schedule = rollout.TakeSchedule();
  }
  return found;
}

}  // namespace

PolicyResult RunExact(const PolicyInput& input) {
  PolicyResult found = RunHome(input);
  const Problem& problem = input.problem;
  if (!problem.live.empty() && *std::ranges::max_element(problem.live) <= problem.limits.budget) {
    found.stopped_early = false;
    return found;
  }
  if (!problem.limits.may_recompute && !problem.limits.may_swap) return found;
  return problem.limits.may_swap ? RunChoices(input, std::move(found)) : RunProgram(input, std::move(found));
}

}  // namespace ebbtide::plan
