// Random steps whose plans have their state first, as those of steps that share a pool.
#pragma once

#include <memory>
#include <optional>

#include "plan/plan.h"
#include "run/engine/step_region.h"
#include "tests/support/random_plans.h"

namespace ebbtide::run {

struct SharedCase {
  std::unique_ptr<plan::Task> task;
  std::optional<plan::Plan> plan;  // none: the random preferences led to none
  Bytes state = 0;                 // plan addresses below are those of state
  std::vector<StepId> groups;      // first steps
};

// Inputs count as state where the seed is even; else they are in the lane.
SharedCase RandomSharedCase(int seed, int groups);

// By group: the height above the state while it runs, and what crosses its end.
struct GroupHeights {
  Bytes peak = 0, after = 0;
};
std::vector<GroupHeights> HeightsOf(const SharedCase& shared);

}  // namespace ebbtide::run
