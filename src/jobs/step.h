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

// `alignment`: of every storage; 0: as the graph's framework has it. The ops of a rank are in the order in which the
// GPU begins with them.
Step MakeStep(std::shared_ptr<const TrainingGraph> graph, const DeviceProfile& gpu, Bytes alignment = 0);
// The graph's ops as they stand.
sim::Workload TimedWorkload(const TrainingGraph& graph, const DeviceProfile& gpu, Bytes alignment = 0);

// Of an iteration in which nothing is moved; of a rank, with its collectives beside computation.
Nanos StepTime(TrainingGraph graph, const DeviceProfile& gpu);

}  // namespace ebbtide::jobs
