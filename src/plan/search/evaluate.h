// How good preferences are: the time of the schedule they lead to. Many at once on several threads.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "plan/search/rollout.h"

namespace ebbtide::plan {

inline constexpr Nanos kInfeasible = std::numeric_limits<Nanos>::max();

// The iteration's time; kInfeasible where the rollout fails, or once it is clear that it takes longer than `limit`.
Nanos Evaluate(const Problem& problem, const Preferences& preferences, Nanos limit = kInfeasible);

// One time for each, with a limit of its own. The result does not depend on the number of threads. Once `stop` says so,
// which is asked on each of them, or the problem's deadline has passed, those that have not begun are left out, as if
// infeasible.
std::vector<Nanos> EvaluateAll(const Problem& problem, std::span<const Preferences> preferences,
                               std::span<const Nanos> limits, int threads, const std::function<bool()>& stop = {});

}  // namespace ebbtide::plan
