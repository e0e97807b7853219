// Keeps everything; each storage goes with its last reference, as in a framework.
#include "plan/policies/policy.h"
#include "sim/machine.h"

namespace ebbtide::plan {

PolicyResult RunNone(const PolicyInput& input) {
  const sim::Workload& workload = *input.problem.workload;
  if (sim::PlainPeak(workload) > input.problem.limits.budget) return {};
  IdVector<OpId, std::vector<StorageId>> released(workload.ops());
  for (const StorageId s : workload.storage_ids()) {
    if (workload.last_reference[s].valid()) released[workload.last_reference[s]].push_back(s);
  }
  sim::Machine machine(workload, input.problem.link, /*record=*/true);
  for (const OpId op : workload.op_ids()) {
    machine.Run(op, false);
    for (const StorageId s : released[op]) machine.Drop(s, sim::End::kFree);
  }
  return Found(machine.TakeSchedule());
}

}  // namespace ebbtide::plan
