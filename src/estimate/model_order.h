// The order in which a model's tensors come to lie on the device.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace ebbtide::estimate {

// Parameters and buffers as nn.Module.to moves them: a module's children first, in the order in which the graph names
// them, then its own parameters, then its own buffers. Linear in the names' length, but for the sorting.
std::vector<StorageId> ModelOrder(const TrainingGraph& graph);

}  // namespace ebbtide::estimate
