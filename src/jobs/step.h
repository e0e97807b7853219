// A training step as planners and the simulator take it.
#pragma once

#include <memory>

#include "device/profile.h"
#include "graph/graph.h"
#include "sim/workload.h"

namespace ebbtide::jobs {

struct Step {
  std::shared_ptr<const TrainingGraph> graph;
  std::shared_ptr<const sim::Workload> workload;  // with the times of its ops on the GPU
};

// `alignment`: of every storage; 0: as the graph's framework has it.
Step MakeStep(std::shared_ptr<const TrainingGraph> graph, const DeviceProfile& gpu, Bytes alignment = 0);

}  // namespace ebbtide::jobs
