#include "plan/evaluate.h"

#include <atomic>
#include <thread>

namespace ebbtide::plan {

Nanos Evaluate(const Problem& problem, const Preferences& preferences, Nanos limit) {
  Rollout rollout(problem, preferences, /*record=*/false);
  rollout.StopAfter(limit);
  return rollout.Run() ? rollout.time() : kInfeasible;
}

std::vector<Nanos> EvaluateAll(const Problem& problem, std::span<const Preferences> preferences, Nanos limit, int threads) {
  std::vector<Nanos> times(preferences.size(), kInfeasible);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < preferences.size(); i = next++) times[i] = Evaluate(problem, preferences[i], limit);
  };
  std::vector<std::jthread> helpers;
  for (int i = 1; i < threads && static_cast<std::size_t>(i) < preferences.size(); ++i) helpers.emplace_back(work);
  work();
  helpers.clear();
  return times;
}

}  // namespace ebbtide::plan
