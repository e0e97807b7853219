// An iteration under a plan as a few lines of a terminal: device memory and the three streams over one axis of time.
#pragma once

#include <string>

#include "graph/graph.h"
#include "report/text/terminal.h"
#include "sim/simulate.h"

namespace ebbtide::report {

// `outcome` is that of the schedule, with its timeline. A column is a slice of time: of the memory its largest value,
// of a stream the share of the slice in which it is busy.
std::string PlanStrip(const TrainingGraph& graph, const sim::Workload& workload, const sim::Schedule& schedule,
                      const sim::Outcome& outcome, const Terminal& terminal);

}  // namespace ebbtide::report
