// Places a schedule by static packing.
#include "plan/place.h"

#include "pack/pack.h"
#include "sim/simulate.h"

namespace ebbtide::plan {

Bytes Place(const sim::Workload& workload, sim::Schedule& schedule, Bytes height_limit,
            const std::function<bool()>& cancelled, const Deadline& deadline, std::int64_t evaluations) {
  std::vector<pack::PackItem> items;
  for (const sim::Stay& stay : schedule.stays)
    items.push_back({stay.from.value, stay.to.value, workload.bytes[stay.storage]});
  const IdVector<sim::StepId, Bytes> workspace = sim::StepWorkspace(workload, schedule);
  for (const sim::StepId k : workspace.ids()) {
    if (workspace[k] > 0) items.push_back({k.value, k.Next().value, workspace[k]});
  }
  pack::PackOptions options;
  options.capacity = height_limit;
  options.alignment = workload.alignment;
  options.cancelled = cancelled;
  options.deadline = deadline;
  if (evaluations > 0) options.evaluations = evaluations;
  const pack::Packing packing = pack::Pack(items, options);
  std::size_t next = 0;
  for (sim::Stay& stay : schedule.stays) stay.address = packing.offsets[next++];
  schedule.workspace_address.assign(schedule.steps.size(), -1);
  for (const sim::StepId k : workspace.ids()) {
    if (workspace[k] > 0) schedule.workspace_address[k] = packing.offsets[next++];
  }
  return packing.height;
}

}  // namespace ebbtide::plan
