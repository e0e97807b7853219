// The ops of a graph in another order that computes the same.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace ebbtide {

// For each op the earlier ops that have to stay before it: those that yield what it reads; those that change a storage
// it touches, or touch one it changes; all that touch a storage which it releases; where it draws random numbers or
// talks to other ranks, the one that last did so. Ops of different phases do not pass each other either; that is left
// out here, see Segments. Without repeats; enough of them, not all: what follows from others may be missing.
std::vector<std::vector<OpId>> Predecessors(const TrainingGraph& graph);

// The first ops of the longest runs of ops of one phase, and one past the last op. Ops stay within their run.
std::vector<OpId> Segments(const TrainingGraph& graph);

// The graph with its ops in this order: order[i] is the op that comes at place i. A permutation. Whether it keeps what
// the graph computes is for plan::ValidateOrder to say.
TrainingGraph Reordered(const TrainingGraph& graph, std::span<const OpId> order);

}  // namespace ebbtide
