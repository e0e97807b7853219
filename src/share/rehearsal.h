// How steps with plans would get on together in one pool, in the simulator: what a choice between their plans goes by.
#pragma once

#include <optional>
#include <vector>

#include "device/profile.h"
#include "plan/plan.h"
#include "share/groups.h"
#include "share/pipeline.h"
#include "sim/simulate.h"

namespace ebbtide::share {

// The graph has times; the plan is one for it.
struct PlannedStep {
  TrainingGraph graph;
  plan::Plan plan;
  std::int64_t weight = 1;
  int priority = 0;
};

struct RehearsalOptions {
  PipelineOptions pipeline;
  bool one_lane = false;  // for all; else each has its own
  Bytes enough = 0;       // as for MakeMooring
  CutOptions cut;
  sim::Link link;
  // What an op takes of the device while it runs: by its size on a GPU that is known, else all ops the same share.
  std::optional<DeviceProfile> gpu;
  double share = 1;
};

struct Rehearsal {
  Nanos round = 0;     // every step is taken once
  double overlap = 0;  // share of the groups that run beside one of another step
};

// An error says what does not fit.
Result<Rehearsal> Rehearse(const std::vector<PlannedStep>& steps, const RehearsalOptions& options);

}  // namespace ebbtide::share
