// The order in which a GPU begins with the ops of a rank, beside that in which the host asks for them.
#pragma once

#include "graph/graph.h"

namespace ebbtide::parallel {

// A rank's graph has its ops as the host issues them, which is the order in which memory is asked for. The host is
// ahead of the GPU: in forward, parameters that a unit needs are gathered while the units before it compute, as soon as
// the stream of gathers has memory that is free again. Here they stand where they may begin. What uses them, and all
// else, keeps its order; a graph without gathers in forward is returned as it is.
TrainingGraph InExecutionOrder(TrainingGraph graph);

}  // namespace ebbtide::parallel
