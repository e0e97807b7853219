// Another order of a graph's ops, in which less lives at once.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "sim/workload.h"

namespace ebbtide::plan {

// An order that computes the same (plan::ValidateOrder), as graph::Reordered takes it: where that was found, one in
// which the most that lives at once is less, or as much for a shorter time. It depends on nothing but the step, so that
// all budgets have the same. Empty: none is better than the graph's own.
std::vector<OpId> FindOrder(const TrainingGraph& graph, const sim::Workload& workload);

}  // namespace ebbtide::plan
