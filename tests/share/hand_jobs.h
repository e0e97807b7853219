// Jobs made by hand, with the share of the GPU that each op takes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "share/scheduler/job.h"
#include "tests/support/hand_graph.h"

namespace ebbtide::share::testing {

// Two ops forward and two backward, 100 ns each if not said otherwise: f1 makes 100 bytes that b2 needs, f2 makes 100
// that b1 needs, b1 and b2 make 10. Live during them: 100, 200, 210, 120. 10 bytes of state.
inline std::shared_ptr<const Training> Tide(std::string name, double share, Nanos launch = 0, Nanos time = 100) {
  HandGraph step;
  const TensorId weight = step.Present(10);
  const TensorId f1 = step.Make("f1", {weight}, 100, {.time = time});
  const TensorId f2 = step.Make("f2", {f1}, 100, {.time = time});
  const TensorId b1 = step.Make("b1", {f2}, 10, {.phase = Phase::kBackward, .time = time});
  step.Make("b2", {f1, b1}, 10, {.phase = Phase::kBackward, .time = time});
  auto out = std::make_shared<Training>();
  out->model = std::move(name);
  out->batch = 1;
  out->workload = step.Workload();
  out->graph = step.graph;
  out->share.assign(4, share);
  out->launch.assign(4, launch);
  return out;
}

inline Job TideJob(std::string name, double share, Nanos launch = 0, Nanos time = 100) {
  return MakeJob(Tide(std::move(name), share, launch, time), nullptr, 1000, {.groups = 4}, {});
}

}  // namespace ebbtide::share::testing
