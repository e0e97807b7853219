// Contents for storages when only time and memory count: numbers as training has them, valid for every op.
#pragma once

#include "graph/graph.h"
#include "run/device/device.h"

namespace ebbtide::run {

// Inputs and activations are between -1 and 1, parameters smaller, optimizer state and buffers small and positive;
// bools are true, and whole numbers 0: an index that is always there.
void FillMadeUp(const TrainingGraph& graph, StorageId storage, Device& device, Bytes address);

}  // namespace ebbtide::run
