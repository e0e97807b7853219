// Decisions that keep a budget, made from the end of the step to its beginning: what has to be there at a moment is
// then known, and nothing else is held.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/decide/retention.h"

namespace ebbtide::plan {

// Of a search for one budget: units that may be looked at. About half a second.
inline constexpr std::int64_t kBackwardWork = 10'000'000;

// Runs again with which memory is within `budget`, without copies; the least time of `tries`. None: none were found.
// Does not depend on the problem's budget. Takes off `work` what it used, and gives up where there is none left.
std::optional<std::vector<RunAgain>> BackwardRuns(const Problem& problem, const Units& units, Bytes budget, int tries,
                                                  std::int64_t& work);

// Runs for budgets between `floor` and `known`, each smaller than the one before; the last is the smallest that was
// found to work.
std::vector<std::vector<RunAgain>> LowestBackwardRuns(const Problem& problem, const Units& units, Bytes floor,
                                                      Bytes known);

}  // namespace ebbtide::plan
