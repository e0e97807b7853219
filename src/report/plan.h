// What `ebbtide plan` and `ebbtide simulate` show.
#pragma once

#include <string>
#include <vector>

#include "plan/make_plan.h"
#include "plan/pareto.h"
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
  plan::Planned planned;  // its outcome has the timeline
  plan::Minimum minimum;
  Nanos plain_time = 0;
  Bytes plain_peak = 0;
  Nanos lower_bound = 0;                  // 0: not worked out
  std::vector<PolicyOutcome> compared;    // with --compare
  std::vector<plan::ParetoPoint> pareto;  // with --pareto, the largest budget first

  bool feasible() const { return planned.plan.has_value(); }
};

Json PlanJson(const PlanResult& result);
std::string PlanText(const PlanResult& result, const Terminal& terminal);

// Why there is no plan, and what would work; empty where there is one.
std::vector<std::string> InfeasibleLines(const PlanResult& result);

// Of a plan that is valid: one that is not is bad input. The plan's time and peak are those of the replay.
Json SimulateJson(const std::string& file, const PlanResult& replayed);
std::string SimulateText(const PlanResult& replayed, const Terminal& terminal);

}  // namespace ebbtide::report
