// Places a schedule by static packing.
#include "plan/place.h"

#include "pack/pack.h"
#include "sim/simulate.h"

namespace ebbtide::plan {

namespace {

Bytes PlaceWith(pack::PackOptions options, const sim::Workload& workload, sim::Schedule& schedule) {
  std::vector<pack::PackItem> items;
  for (const sim::Stay& stay : schedule.stays)
    items.push_back({stay.from.value, stay.to.value, workload.bytes[stay.storage]});
  const IdVector<sim::StepId, Bytes> workspace = sim::StepWorkspace(workload, schedule);
  for (const sim::StepId k : workspace.ids()) {
    if (workspace[k] > 0) items.push_back({k.value, k.Next().value, workspace[k]});
  }
  options.alignment = workload.alignment;
  const pack::Packing packing = pack::Pack(items, options);
  std::size_t next = 0;
  for (sim::Stay& stay : schedule.stays) stay.address = packing.offsets[next++];
  schedule.workspace_address.assign(schedule.steps.size(), -1);
  for (const sim::StepId k : workspace.ids()) {
    if (workspace[k] > 0) schedule.workspace_address[k] = packing.offsets[next++];
  }
  return packing.height;
}

}  // namespace

Bytes Place(const sim::Workload& workload, sim::Schedule& schedule, Bytes height_limit,
            const std::function<bool()>& cancelled, const Deadline& deadline, std::int64_t evaluations) {
  pack::PackOptions options;
  options.capacity = height_limit;
  options.cancelled = cancelled;
  options.deadline = deadline;
  if (evaluations > 0) options.evaluations = evaluations;
  return PlaceWith(std::move(options), workload, schedule);
}

Bytes PlaceQuickly(const sim::Workload& workload, sim::Schedule& schedule, Bytes height_limit,
                   const std::function<bool()>& cancelled, const Deadline& deadline) {
  pack::PackOptions options;
  options.capacity = height_limit;
  options.within_only = true;
  options.cancelled = cancelled;
  options.deadline = deadline;
  return PlaceWith(std::move(options), workload, schedule);
}

}  // namespace ebbtide::plan
