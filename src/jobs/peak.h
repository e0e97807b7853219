// What the peak of an estimate consists of. Part of jobs/estimate.
#pragma once

#include "jobs/estimate.h"

namespace ebbtide::jobs {

std::vector<Contribution> BreakdownOf(const estimate::Estimate& estimate);
std::vector<Contribution> LargestFirst(std::vector<Contribution> parts);
// The largest first. The estimate has its timeline.
std::vector<TensorAtPeak> TensorsAtPeak(const estimate::Estimate& estimate, const TrainingGraph& graph,
                                        std::size_t count);
// What the model, and state that its optimizer makes early, take before the first iteration.
Bytes ReservedBeforeTraining(const estimate::Timeline& timeline);
// What the device would have to have more, of a job that does not fit.
Bytes LackOf(const estimate::Estimate& estimate);

}  // namespace ebbtide::jobs
