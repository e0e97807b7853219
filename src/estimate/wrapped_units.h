// The units that FullyShardedDataParallel cuts up when it wraps a model, on the GPU.
#pragma once

#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace ebbtide::estimate {

// By the first parameter of each unit, in the order in which the model is made: the bytes of its parameters, whole.
using WholeUnits = std::unordered_map<StorageId, std::vector<Bytes>>;

// Empty where parameters are not gathered into a flat buffer that is the parameters (FSDP 2 cuts up one by one).
WholeUnits WrappedUnits(const TrainingGraph& graph);

// Of weights that are stored in few bits, what belongs to other ranks: libraries that make them load the whole model on
// every GPU before it is cut up, and pieces of such sizes are of no use to what training asks for.
Bytes StoredForOthers(const TrainingGraph& graph);

}  // namespace ebbtide::estimate
