// Ops and storages by names that people know them by.
#pragma once

#include <string>

#include "graph/graph.h"
#include "sim/workload.h"

namespace ebbtide::report {

// "layer1.0.conv1.weight"; "convolution of layer1.0.conv1" for what an op makes.
std::string StorageLabel(const TrainingGraph& graph, const sim::Workload& workload, StorageId storage);
std::string OpLabel(const TrainingGraph& graph, OpId op);

}  // namespace ebbtide::report
