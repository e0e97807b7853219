// A plan as one HTML page that needs nothing beside it: its timeline, its memory, what it moves, what it waits for.
#pragma once

#include <string>

#include "jobs/plan.h"

namespace ebbtide::report {

// The page holds at most some ten thousand spans and samples, so that it opens at once whatever the step is.
std::string PlanPage(const jobs::PlanResult& result);

}  // namespace ebbtide::report
