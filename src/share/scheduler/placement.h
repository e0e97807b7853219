// Addresses for a job of a lane. What stays from iteration to iteration lies from 0 up in memory of the job's own; all
// else lies from 0 up in the lane, low addresses first, so that the height in use rises and ebbs with the live bytes.
#pragma once

#include <vector>

#include "share/scheduler/groups.h"
#include "sim/schedule.h"
#include "sim/workload.h"

namespace ebbtide::share {

struct Placement {
  sim::Schedule schedule;            // with an address for every stay and workspace, in the one or the other memory
  IdVector<StayId, bool> is_state;   // in the job's own memory
  Bytes state = 0;                   // bytes of the job's own memory
  Bytes height = 0;                  // one past the highest address in the lane
  Bytes live_peak = 0;               // of what lies in the lane: no placement is lower
  IdVector<StepId, Bytes> live;      // bytes of the lane in use
  IdVector<StepId, Bytes> heights;   // one past the highest address in use while the step runs
  IdVector<StepId, Bytes> after;     // ... when it has run
  IdVector<StepId, Bytes> crossing;  // bytes of the lane in use when it has run
};

// `height_limit`: a height up to this is spent on keeping the height low at other times. Of several placements none of
// which keeps it, the lowest is taken. Deterministic. No stay of the state may move (plan::Limits::may_move_state).
Placement PlaceInLane(const sim::Workload& workload, sim::Schedule schedule, Bytes height_limit);

// The step as a framework runs it: each storage goes with its last reference.
sim::Schedule PlainSchedule(const sim::Workload& workload);

// No two stays or workspaces share a byte while both live; all of them lie within state and height. Naive on purpose.
Status CheckPlacement(const sim::Workload& workload, const Placement& placement);

// Mean over time of height over live bytes, and the peak's: what placing costs.
struct PlacementCost {
  double peak = 1, mean = 1;
};
PlacementCost CostOf(const sim::Workload& workload, const Placement& placement);

}  // namespace ebbtide::share
