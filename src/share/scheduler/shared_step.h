// A plan for a step of its own, as a step that shares a pool runs it: placed for a lane, and cut into groups.
#pragma once

#include "plan/plan.h"
#include "run/engine/step_region.h"
#include "share/scheduler/groups.h"
#include "share/scheduler/pipeline.h"

namespace ebbtide::share {

struct SharedStep {
  plan::Plan plan;  // state at [0, state), all else from `state` on
  Bytes state = 0;
  Bytes height = 0;            // of all else
  std::vector<StepId> groups;  // the first step of each
  JobShape shape;              // without a lane

  // Its region of a pool, before it is known where the state lies.
  run::StepRegion region() const { return {.state = 0, .state_bytes = state, .groups = groups}; }
};

struct SharedStepOptions {
  Bytes height_limit = 0;  // as for PlaceInLane
  CutOptions cut;
};

// The plan is one for the graph. Placed and cut as the arranger does it for the same plan and limit (arrange.h).
Result<SharedStep> MakeSharedStep(const TrainingGraph& graph, const plan::Plan& plan, const SharedStepOptions& options);

}  // namespace ebbtide::share
