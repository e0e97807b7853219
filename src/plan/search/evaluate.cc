// Rolls out preferences, many at once.
#include "plan/search/evaluate.h"

#include "base/parallel.h"

namespace ebbtide::plan {

Nanos Evaluate(const Problem& problem, const Preferences& preferences, Nanos limit) {
  Rollout rollout(problem, preferences, /*record=*/false);
  rollout.StopAfter(limit);
  return rollout.Run() ? rollout.time() : kInfeasible;
}

std::vector<Nanos> EvaluateAll(const Problem& problem, std::span<const Preferences> preferences,
                               std::span<const Nanos> limits, int threads, const std::function<bool()>& stop) {
  std::vector<Nanos> times(preferences.size(), kInfeasible);
  ForEachIndex(preferences.size(), threads, [&](std::size_t i) {
    if (i > 0 && (IsLate(problem) || (stop && stop()))) return;
    times[i] = Evaluate(problem, preferences[i], limits[i]);
  });
  return times;
}

}  // namespace ebbtide::plan
