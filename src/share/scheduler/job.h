// A job of a mix: one training step, cut into groups, placed, with what each of its ops takes of the GPU.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/profile.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "share/scheduler/groups.h"
#include "share/scheduler/pipeline.h"
#include "share/scheduler/placement.h"
#include "sim/simulate.h"

namespace ebbtide::share {

// What is said of a training beside its graph.
struct TrainingOptions {
  std::string model;
  std::int64_t batch = 0;
  std::int64_t weight = 1;
  int priority = 0;
  Bytes alignment = 512;
  // The plan that the step has by itself; null: it runs as a framework runs it.
  std::shared_ptr<const plan::Plan> own_plan = nullptr;
  std::string policy = "home";  // makes plans with which it is lower; "none": it is never planned
};

// A step as its model gives it.
struct Training : TrainingOptions {
  TrainingGraph graph;
  sim::Workload workload;
  IdVector<OpId, double> share;  // of the GPU, while its kernels run
  IdVector<OpId, Nanos> launch;  // of its time, the part in which the GPU is left to others
};

// With the graph's own times or, where it has none, modelled ones.
std::shared_ptr<const Training> MakeTraining(TrainingOptions options, TrainingGraph graph, const DeviceProfile& gpu);

// What ops take of the device that their step was measured on: by their size on a GPU that is known, else each the same
// share, with no time for launches.
struct DeviceUse {
  std::optional<DeviceProfile> gpu = {};
  double share = 1;
};
// With the graph's own times; ops without one count alike.
std::shared_ptr<const Training> MakeMeasuredTraining(TrainingOptions options, TrainingGraph graph,
                                                     const DeviceUse& use);
sim::Workload MeasuredWorkload(const TrainingGraph& graph, Bytes alignment);

struct Job {
  std::shared_ptr<const Training> training;
  std::shared_ptr<const plan::Plan> plan;  // that it runs by; null: as a framework runs it
  Bytes height_limit = 0;                  // that it was placed with
  Placement placement;
  Cut cut;
  Nanos alone = 0;         // an iteration as a framework runs it, with the GPU to itself
  Nanos planned_time = 0;  // an iteration under its plan, with the GPU to itself; without a plan, `alone`

  bool planned() const { return plan != nullptr; }
  // With all of its state.
  Bytes peak() const { return placement.state + placement.height; }
};

// `height_limit`: as for PlaceInLane.
Job MakeJob(std::shared_ptr<const Training> training, std::shared_ptr<const plan::Plan> plan, Bytes height_limit,
            const CutOptions& cut, const Link& link);

StepProfile ProfileOf(const sim::Workload& workload, const Placement& placement);
JobShape ShapeOf(const Job& job, int lane);

// In which jobs join a pool: the tallest of each lane first, so that every lane is open before one that is shared grows
// into what is left over; lanes with one job come before others. `lanes`: the number of each job's lane.
std::vector<std::size_t> JoinOrder(const std::vector<Job>& jobs, const std::vector<int>& lanes);

}  // namespace ebbtide::share
