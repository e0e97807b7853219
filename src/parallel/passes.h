// Batches whose gradients add up before one update: where each begins, and the ops that add a later one's.
#pragma once

#include <map>
#include <vector>

#include "graph/graph.h"

namespace ebbtide::parallel {

// Half-open: [begin, end) of the ops of one batch, forward and backward.
struct Pass {
  std::size_t begin = 0, end = 0;
};

// At least one; a batch begins with the first op of forward behind one of backward. Ops of the update are in none.
std::vector<Pass> PassesOf(const TrainingGraph& graph);

// What a later batch adds to a gradient.
struct AddedGradient {
  StorageId gradient;  // of all batches so far
  TensorId fresh;      // of this one
};

// By op: those of later passes that do nothing but add to a gradient that an earlier one has made.
std::map<OpId, AddedGradient> AddedGradients(const TrainingGraph& graph, const std::vector<Pass>& passes);

}  // namespace ebbtide::parallel
