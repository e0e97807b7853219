// A prediction as a timeline, for the page and for plots.
#pragma once

#include <string>

#include "jobs/estimate.h"
#include "report/memory_timeline.h"

namespace ebbtide::report {

// `named`: allocations have names, each a text of its own.
MemoryTimeline EstimateTimeline(const jobs::EstimateResult& prediction, bool named = true);

// Where in the run a moment was, for people: "iteration 2, addmm of fc".
std::string PlaceText(const estimate::Moment& moment, const TrainingGraph& graph);

}  // namespace ebbtide::report
