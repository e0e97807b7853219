// Decisions that keep a budget at any price in time: the step is followed op by op, and what an op lacks is brought by
// a search of its own, in an order that needs little memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/decide/retention.h"

namespace ebbtide::plan {

// Of a search over budgets for one graph: sets of storages that may be found where a quick search for what an op lacks
// ends without a way. About two seconds.
inline constexpr std::int64_t kFrugalWork = 600'000;

// Runs again with which memory is within `budget`, without copies; none: none were found. Does not depend on the
// problem's budget. Takes off `work` what it used, and gives up where there is none left.
std::optional<std::vector<RunAgain>> FrugalRuns(const Problem& problem, const Units& units, Bytes budget,
                                                std::int64_t& work);

}  // namespace ebbtide::plan
