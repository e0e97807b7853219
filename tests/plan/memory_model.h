// Runs a schedule on memory that is really there: what every address holds is a number that says how it came about.
// A third opinion besides the validator and the simulator, which knows nothing of versions or stays that overlap: if
// ops read what they read in the plain step, and what is left is the same, the schedule was right.
#pragma once

#include "graph/graph.h"
#include "sim/schedule.h"

namespace ebbtide {

// The schedule has addresses, its steps are ops of the graph and its stays lie within the steps.
// `height`: bytes of memory. Copies happen as early and as late as they may: both must do.
bool GivesTheSame(const TrainingGraph& graph, const sim::Schedule& schedule, Bytes alignment, Bytes height);

}  // namespace ebbtide
