#include "run/berth.h"

#include <algorithm>

#include "sim/simulate.h"

namespace ebbtide::run {

Bytes Berth::ToPool(Bytes address, Bytes bytes) const {
  if (!shared()) return address;
  if (address < state_bytes) return state + address;
  const Bytes above = address - state_bytes;
  return from_top ? lane + lane_bytes - above - bytes : lane + above;
}

Bytes Berth::HeightOf(Bytes address, Bytes bytes) const {
  if (!shared()) return address + bytes;
  if (!InLane(address)) return address - state + bytes;
  return state_bytes + (from_top ? lane + lane_bytes - address : address - lane + bytes);
}

Result<Placed> PlaceAt(const TrainingGraph& graph, const sim::Workload& workload, const sim::Schedule& schedule,
                       const Berth& berth) {
  Placed out{berth.shared() && berth.lane_bytes == 0 ? -1 : berth.anchor(), schedule, {}};
  const auto straddles = [&](Bytes address, Bytes bytes) {
    return berth.shared() && address < berth.state_bytes && address + bytes > berth.state_bytes;
  };
  Bytes height = 0;
  for (sim::Stay& stay : out.schedule.stays) {
    const Bytes bytes = workload.bytes[stay.storage];
    if (straddles(stay.address, bytes))
      return Fail("storage {} lies across the end of the state, {}", stay.storage, berth.state_bytes);
    const bool is_state = workload.outlives[stay.storage] && workload.born[stay.storage] == sim::kNone;
    if (berth.shared() && stay.begin == sim::Begin::kPresent && is_state && bytes > 0 &&
        graph.storages[stay.storage].kind != StorageKind::kInput && stay.address >= berth.state_bytes) {
      return Fail("storage {} is state, and lies at {}; expected it below {}", stay.storage, stay.address,
                  berth.state_bytes);
    }
    height = std::max(height, stay.address + bytes);
    stay.address = berth.ToPool(stay.address, bytes);
  }
  const std::vector<Bytes> workspace = sim::StepWorkspace(workload, schedule);
  for (std::size_t k = 0; k < out.schedule.workspace_address.size(); ++k) {
    Bytes& address = out.schedule.workspace_address[k];
    if (address < 0) continue;
    if (straddles(address, workspace[k])) return Fail("the workspace of step {} lies across the end of the state", k);
    height = std::max(height, address + workspace[k]);
    address = berth.ToPool(address, workspace[k]);
  }
  if (berth.shared() && berth.lane_bytes > 0 && height > berth.state_bytes + berth.lane_bytes) {
    return Fail("the plan needs {} bytes beside its state, the lane has {}", height - berth.state_bytes,
                berth.lane_bytes);
  }
  out.itinerary = MakeItinerary(graph, workload, out.schedule);
  // Inputs in the lane are given anew to each iteration: there is no home to bring them back to.
  const auto in_lane = [&](Index s) { return berth.InLane(out.itinerary.home[s]); };
  std::erase_if(out.itinerary.moved, in_lane);
  std::erase_if(out.itinerary.undo, in_lane);
  return out;
}

}  // namespace ebbtide::run
