// From addresses of a plan to addresses of a pool and back.
#include "run/engine/step_region.h"

#include <algorithm>

#include "sim/simulate.h"

namespace ebbtide::run {

Bytes StepRegion::ToPool(Bytes address, Bytes bytes) const {
  if (!shared()) return address;
  if (address < state_bytes) return state + address;
  const Bytes above = address - state_bytes;
  return from_top ? lane + lane_bytes - above - bytes : lane + above;
}

Bytes StepRegion::HeightOf(Bytes address, Bytes bytes) const {
  if (!shared()) return address + bytes;
  if (!InLane(address)) return address - state + bytes;
  return state_bytes + (from_top ? lane + lane_bytes - address : address - lane + bytes);
}

Result<PlacedSchedule> PlaceAt(const TrainingGraph& graph, const sim::Workload& workload, const sim::Schedule& schedule,
                               const StepRegion& region) {
  PlacedSchedule out{region.shared() && region.lane_bytes == 0 ? -1 : region.anchor(), schedule, {}};
  const auto straddles = [&](Bytes address, Bytes bytes) {
    return region.shared() && address < region.state_bytes && address + bytes > region.state_bytes;
  };
  Bytes height = 0;
  for (sim::Stay& stay : out.schedule.stays) {
    const Bytes bytes = workload.bytes[stay.storage];
    if (straddles(stay.address, bytes))
      return Fail("storage {} lies across the end of the state, {}", stay.storage.value, region.state_bytes);
    const bool is_state = workload.outlives[stay.storage] && workload.IsState(stay.storage);
    if (region.shared() && stay.begin == sim::Begin::kPresent && is_state && bytes > 0 &&
        graph.storage(stay.storage).kind != StorageKind::kInput && stay.address >= region.state_bytes) {
      return Fail("storage {} is state, and lies at {}; expected it below {}", stay.storage.value, stay.address,
                  region.state_bytes);
    }
    height = std::max(height, stay.address + bytes);
    stay.address = region.ToPool(stay.address, bytes);
  }
  const IdVector<StepId, Bytes> workspace = sim::StepWorkspace(workload, schedule);
  for (const StepId k : out.schedule.workspace_address.ids()) {
    Bytes& address = out.schedule.workspace_address[k];
    if (address < 0) continue;
    if (straddles(address, workspace[k]))
      return Fail("the workspace of step {} lies across the end of the state", k.value);
    height = std::max(height, address + workspace[k]);
    address = region.ToPool(address, workspace[k]);
  }
  if (region.shared() && region.lane_bytes > 0 && height > region.state_bytes + region.lane_bytes) {
    return Fail("the plan needs {} bytes beside its state, the lane has {}", height - region.state_bytes,
                region.lane_bytes);
  }
  out.program = MakeProgram(graph, workload, out.schedule);
  // Inputs in the lane are given anew to each iteration: there is no home to bring them back to.
  const auto in_lane = [&](StorageId s) { return region.InLane(out.program.home[s]); };
  std::erase_if(out.program.moved, in_lane);
  std::erase_if(out.program.undo, in_lane);
  return out;
}

}  // namespace ebbtide::run
