// Ops that wait for each other.
#pragma once

#include <span>

#include "base/result.h"
#include "graph/graph.h"

namespace ebbtide {

// An error that names the ops of a cycle, if there is one. `yielder`: of each tensor, the op that yields it, or an
// invalid id. Linear in the graph, without recursion.
Status CheckNoCycle(const TrainingGraph& graph, std::span<const OpId> yielder);

}  // namespace ebbtide
