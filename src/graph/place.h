// How messages name a part of a graph: by its place in the file, and by what people know it as.
#pragma once

#include <string>

#include "graph/graph.h"

namespace ebbtide {

std::string PlaceOf(const TrainingGraph& graph, OpId op);            // ops[17] (mm, fc)
std::string PlaceOf(const TrainingGraph& graph, StorageId storage);  // storages[3] (parameter, fc.weight)
std::string PlaceOf(const TrainingGraph& graph, TensorId tensor);    // tensors[4] (fc.weight)

}  // namespace ebbtide
