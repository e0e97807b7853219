#include "plan/place.h"

#include "alloc/packing.h"
#include "sim/simulate.h"

namespace ebbtide::plan {

Bytes Place(const sim::Workload& workload, sim::Schedule& schedule, Bytes enough) {
  std::vector<alloc::PackItem> items;
  for (const sim::Stay& stay : schedule.stays) items.push_back({stay.from, stay.to, workload.bytes[stay.storage]});
  const std::vector<Bytes> workspace = sim::StepWorkspace(workload, schedule);
  for (std::int64_t k = 0; k < static_cast<std::int64_t>(workspace.size()); ++k) {
    const Bytes bytes = workspace[static_cast<std::size_t>(k)];
    if (bytes > 0) items.push_back({k, k + 1, bytes});
  }
  const alloc::Packing packing = alloc::Pack(items, {.capacity = enough, .alignment = workload.alignment});
  std::size_t next = 0;
  for (sim::Stay& stay : schedule.stays) stay.address = packing.offsets[next++];
  schedule.workspace_address.assign(schedule.steps.size(), -1);
  for (std::size_t k = 0; k < workspace.size(); ++k) {
    if (workspace[k] > 0) schedule.workspace_address[k] = packing.offsets[next++];
  }
  return packing.height;
}

}  // namespace ebbtide::plan
