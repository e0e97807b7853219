// A step as one rank of several runs it   ◀ start reading here
//
// The graph of a whole model becomes that of a rank: parameters, gradients and state are what lies on this GPU,
// collectives are ops with buffers of their own. What comes out is a TrainingGraph like any other.
#pragma once

#include "base/result.h"
#include "graph/graph.h"
#include "parallel/layout.h"

namespace ebbtide::parallel {

// The graph passes Check, and so does what is returned. Its batch is that of one rank. All ranks of a layout without
// stages take the same; where shards cannot be equal it is the rank with the larger ones.
Result<TrainingGraph> RankGraph(TrainingGraph graph, const Layout& layout);

// How each does it; RankGraph chooses. TensorParallel, ContextParallel and StageOf fail where a model cannot be divided
// so; the graph that ContextParallel takes is of this rank's part of the sequence.
Result<TrainingGraph> ContextParallel(const TrainingGraph& graph, const Layout& layout);
Result<TrainingGraph> TensorParallel(const TrainingGraph& graph, const Layout& layout);
Result<TrainingGraph> StageOf(const TrainingGraph& graph, const Layout& layout);
TrainingGraph WithDdp(TrainingGraph graph, const Layout& layout);
TrainingGraph WithFsdp(TrainingGraph graph, const Layout& layout);
TrainingGraph WithZero(TrainingGraph graph, const Layout& layout);

}  // namespace ebbtide::parallel
