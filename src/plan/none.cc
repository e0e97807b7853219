// Keeps everything; each storage goes with its last reference, as in a framework.
#include "plan/policy.h"
#include "sim/machine.h"

namespace ebbtide::plan {

PolicyResult RunNone(const PolicyInput& input) {
  const sim::Workload& workload = *input.problem.workload;
  if (sim::PlainPeak(workload) > input.problem.limits.budget) return {};
  std::vector<std::vector<Index>> released(workload.ops());
  for (Index s = 0; s < workload.storages(); ++s) {
    if (workload.last_reference[s] != sim::kNone) released[workload.last_reference[s]].push_back(s);
  }
  sim::Machine machine(workload, input.problem.link, /*record=*/true);
  for (Index op = 0; op < workload.ops(); ++op) {
    machine.Run(op, false);
    for (const Index s : released[op]) machine.Drop(s, sim::End::kFree);
  }
  return Found(machine.TakeSchedule());
}

}  // namespace ebbtide::plan
