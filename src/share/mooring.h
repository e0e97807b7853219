// A plan for a step of its own, as a step that shares a pool runs it: placed for a lane, and cut into groups.
#pragma once

#include "plan/plan.h"
#include "run/berth.h"
#include "share/groups.h"
#include "share/pipeline.h"

namespace ebbtide::share {

struct Mooring {
  plan::Plan plan;  // state at [0, state), all else from `state` on
  Bytes state = 0;
  Bytes height = 0;                // of all else
  std::vector<run::Index> groups;  // the first step of each
  JobShape shape;                  // without a lane

  // Before it is known where.
  run::Berth berth() const { return {.state = 0, .state_bytes = state, .groups = groups}; }
};

struct MooringOptions {
  Bytes enough = 0;  // a height that does: what is below it is spent on ebbing early (PlaceInLane)
  CutOptions cut;
};

// The plan is one for the graph.
Result<Mooring> MakeMooring(const TrainingGraph& graph, const plan::Plan& plan, const MooringOptions& options);

// With the graph's own times; ops without one count alike.
sim::Workload TimedWorkload(const TrainingGraph& graph, Bytes alignment);

// What its state takes, wherever it lies.
Bytes StateBytes(const TrainingGraph& graph, const plan::Plan& plan);

}  // namespace ebbtide::share
