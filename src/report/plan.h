// What `ebbtide plan` and `ebbtide simulate` show.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/make_plan.h"
#include "report/json.h"
#include "report/terminal.h"

namespace ebbtide::report {

struct PolicyOutcome {
  std::string policy;
  bool feasible = false;
  Nanos time = 0;
  Bytes peak = 0;
};

struct PlanResult {
  std::string model;
  std::string policy;
  std::string gpu;
  Bytes budget = 0;
  const TrainingGraph* graph = nullptr;
  const sim::Workload* workload = nullptr;
  plan::Planned planned;
  plan::Minimum minimum;
  Nanos plain_time = 0;
  Bytes plain_peak = 0;
  Nanos lower_bound = 0;
  std::vector<PolicyOutcome> compared;  // with --compare

  bool feasible() const { return planned.plan.has_value(); }
};

Json PlanJson(const PlanResult& result);
std::string PlanText(const PlanResult& result, const Terminal& terminal);

// Of a plan that is valid: one that is not is bad input.
struct SimulateResult {
  std::string model;
  std::string plan;  // the file
  const plan::Plan* details = nullptr;
  sim::Outcome outcome;
  Bytes peak = 0;  // one past the highest address, whatever the plan says of itself
};
Json SimulateJson(const SimulateResult& result);
std::string SimulateText(const SimulateResult& result);

}  // namespace ebbtide::report
