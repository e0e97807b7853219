// Plan: which storages of a training step to keep, swap or recompute, so that it fits a budget.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/profile.h"
#include "jobs/budget.h"
#include "jobs/context.h"
#include "jobs/model.h"
#include "plan/make_plan.h"
#include "plan/pareto.h"
#include "plan/summary.h"

namespace ebbtide::jobs {

struct PlanRequest {
  ModelRequest model;
  DeviceProfile gpu;                        // whose speed counts
  Budget budget;                            // of device memory
  double bandwidth = 0;                     // of copies, bytes per second each way; 0: the GPU's own
  Bytes host_memory = plan::Limits{}.host;  // pinned, for copies
  bool may_swap = true;                     // copy to the host
  bool may_move_state = false;  // ... also what is there before the step: parameters, optimizer state, inputs
  bool may_recompute = true;
  // The order of ops may change where that gives the same bits. Plans in the graph's own order and in one other are
  // looked for, and the better is taken. No lower bound then: those known are for one order.
  bool may_reorder = false;
  Bytes alignment = 0;  // of every storage, a power of two; 0: as the graph's framework has it on a GPU
  std::string policy = "home";
  bool compare = false;          // also run every other policy
  bool pareto = false;           // also plan for budgets from the plain peak down to the smallest that works
  bool bound = true;             // work out how fast any plan could be
  std::int64_t evaluations = 0;  // schedules that a search tries; 0: by the size of the graph
  // Seconds of the whole job, 0: no limit. Its phases (the search, the smallest budget, the lower bound, other
  // policies, other budgets) each get a part of what is left when they begin, and end with what they have. Where the
  // search found no plan by then, what needs least memory is still tried.
  double time_limit = 0;
};

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
  std::shared_ptr<const TrainingGraph> graph;  // its ops in the order of the plan
  std::shared_ptr<const sim::Workload> workload;
  plan::Planned planned;  // its outcome has the timeline; without a plan: infeasible, which is an answer
  plan::Summary summary;  // of the plan, where there is one
  plan::Minimum minimum;
  Nanos plain_time = 0;
  Bytes plain_peak = 0;
  Nanos lower_bound = 0;                  // 0: not worked out
  std::vector<PolicyOutcome> compared;    // if it was asked for
  std::vector<plan::ParetoPoint> pareto;  // if it was asked for, the largest budget first

  bool feasible() const { return planned.plan.has_value(); }
};

// Names of PlanRequest::policy, in the order in which they are shown.
std::vector<std::string> PolicyNames();
// Refuses a name that is none of them.
Status CheckPolicy(const std::string& name);

// Phases of its progress: "searching", "smallest budget", "lower bound", "policy NAME", "N budgets".
Result<PlanResult> Plan(const PlanRequest& request, const JobContext& context);

}  // namespace ebbtide::jobs
