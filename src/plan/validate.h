// Whether a schedule computes what the graph computes, within a budget. Naive on purpose, and written apart from every
// planner and from the simulator: it follows the contents of each storage, version by version, through the steps.
#pragma once

#include "base/result.h"
#include "graph/graph.h"
#include "sim/schedule.h"

namespace ebbtide::plan {

struct ValidateOptions {
  Bytes budget = 0;
  Bytes alignment = 512;        // sizes are rounded up to it, addresses are multiples of it
  bool needs_addresses = true;  // every stay and workspace is placed
};

// The first thing that is wrong, in one line.
Status Validate(const TrainingGraph& graph, const sim::Schedule& schedule, const ValidateOptions& options);

}  // namespace ebbtide::plan
