// Simulate: a plan checked op by op against its model's graph, and replayed.
#pragma once

#include <optional>
#include <string>

#include "jobs/plan.h"

namespace ebbtide::jobs {

struct SimulateRequest {
  ModelRequest model;
  std::string plan_file;              // what `ebbtide plan -o` wrote
  std::optional<plan::Plan> in_hand;  // in place of a file
  std::optional<DeviceProfile> gpu;   // nullopt: the one that the plan was made for, or a100-40gb where it names none
  double bandwidth = 0;               // of copies, bytes per second each way; 0: as the plan has it
};

struct SimulateResult {
  std::string plan_file;
  // The plan's time and peak are those of the replay. There is no minimum, lower bound or comparison.
  PlanResult replayed;
};

// A plan that is not for this graph, or breaks a rule on it, is an error of ErrorKind::kPlan.
Result<SimulateResult> Simulate(const SimulateRequest& request, const JobContext& context);

}  // namespace ebbtide::jobs
