// Whether a schedule computes what the graph computes, within a budget. Naive on purpose, and written apart from every
// planner and from the simulator: it follows the contents of each storage, version by version, through the steps.
#pragma once

#include <span>

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

// Whether the graph's ops in this order, order[i] at place i, compute the same bits: every op finds the contents that
// it finds in the graph's own order, random ops draw as before, ranks talk as before, and no op leaves its phase.
Status ValidateOrder(const TrainingGraph& graph, std::span<const OpId> order);

}  // namespace ebbtide::plan
