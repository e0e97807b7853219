// An iteration under a plan as a trace for Perfetto (ui.perfetto.dev) and Chrome: a track per stream, and the memory.
#pragma once

#include <string>

#include "graph/graph.h"
#include "jobs/plan.h"
#include "sim/simulate.h"

namespace ebbtide::report {

// `outcome` has its timeline.
std::string PlanTrace(const TrainingGraph& graph, const sim::Workload& workload, const sim::Schedule& schedule,
                      const sim::Outcome& outcome);

// Of a result that has a plan.
std::string PlanTrace(const jobs::PlanResult& result);

}  // namespace ebbtide::report
