// A job of a mix: one training step, cut into groups, placed, with what each of its ops takes of the GPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/profile.h"
#include "graph/graph.h"
#include "share/groups.h"
#include "share/pipeline.h"
#include "share/placement.h"
#include "sim/simulate.h"

namespace ebbtide::share {

// A step as its model gives it.
struct Training {
  std::string model;
  std::int64_t batch = 0;
  std::int64_t weight = 1;
  int priority = 0;
  TrainingGraph graph;
  sim::Workload workload;
  std::vector<double> share;  // by op: of the GPU, while its kernels run
  std::vector<Nanos> launch;  // by op: of its time, the part in which the GPU is left to others
};

std::shared_ptr<const Training> MakeTraining(std::string model, std::int64_t batch, TrainingGraph graph,
                                             const DeviceProfile& gpu, Bytes alignment = 512, std::int64_t weight = 1,
                                             int priority = 0);

struct Job {
  std::shared_ptr<const Training> training;
  Placement placement;
  Cut cut;
  Nanos alone = 0;  // an iteration as a framework runs it, with the GPU to itself
  bool planned = false;
  Nanos planned_time = 0;  // an iteration under its plan, with the GPU to itself

  // With all of its state.
  Bytes peak() const { return placement.state + placement.height; }
};

// `schedule`: a plan's; nullptr: the plain step. `enough`: as for PlaceInLane.
Job MakeJob(std::shared_ptr<const Training> training, const sim::Schedule* schedule, Bytes enough,
            const CutOptions& cut, const sim::Link& link);

StepProfile ProfileOf(const Job& job);
JobShape ShapeOf(const Job& job, int lane);

}  // namespace ebbtide::share
