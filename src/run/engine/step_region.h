// Where a step lies in a pool that is not its own alone: its state in a part that nobody else uses, all else in a lane
// that it shares, from the lane's bottom up or mirrored, from its top down.
//
// The plan of such a step has its state at addresses [0, state_bytes) and all else from state_bytes on. Where the lane
// lies and which of its ends an iteration has is decided when it begins (turns.h).
#pragma once

#include <vector>

#include "run/engine/program.h"

namespace ebbtide::run {

struct StepRegion {
  // Plan addresses [0, state_bytes) lie from `state` on; -1: the pool is the step's own, and addresses are the pool's.
  Bytes state = 0, state_bytes = -1;
  std::vector<StepId> groups = {};  // the first step of each group of steps, in order, 0 first; empty: one group
  // ---- Of the iteration
  Bytes lane = 0, lane_bytes = 0;  // [lane, lane + lane_bytes)
  bool from_top = false;

  bool shared() const { return state_bytes >= 0; }
  bool InLane(Bytes address) const { return shared() && address >= lane && address < lane + lane_bytes; }
  // Where the iteration's end of the lane is.
  Bytes anchor() const { return from_top ? lane + lane_bytes : lane; }
  // Where `bytes` at an address of the plan lie in the pool.
  Bytes ToPool(Bytes address, Bytes bytes) const;
  // One past the highest address of the plan that `bytes` at an address of the pool take.
  Bytes HeightOf(Bytes address, Bytes bytes) const;
};

// A schedule at addresses of the pool.
struct PlacedSchedule {
  Bytes anchor = -1;  // the region's; -1: it had no lane yet, and only state has its place
  sim::Schedule schedule;
  Program program;
};

// The schedule is valid for the graph and has the plan's addresses. Fails where it does not fit the region.
Result<PlacedSchedule> PlaceAt(const TrainingGraph& graph, const sim::Workload& workload, const sim::Schedule& schedule,
                               const StepRegion& region);

}  // namespace ebbtide::run
