// Gives each storage that needs one its place in one piece of host memory.
#include "run/engine/host_slots.h"

#include <algorithm>

namespace ebbtide::run {

Result<HostSlots> HostSlots::Make(const TrainingGraph& graph, const sim::Workload& workload,
                                  const sim::Schedule& schedule, const Program& program, Device& device) {
  HostSlots out;
  Bytes next = 0;
  out.copy_.assign(workload.storages(), -1);
  out.before_step_.assign(workload.storages(), -1);
  for (const sim::Stay& stay : schedule.stays) {
    if (stay.end != sim::End::kCopyOut || out.copy_[stay.storage] >= 0) continue;
    out.copy_[stay.storage] = next;
    next += workload.bytes[stay.storage];
  }
  out.copied_bytes_ = next;
  for (const StorageId s : program.undo) {
    out.before_step_[s] = next;
    next += workload.bytes[s];
  }
  out.found_ = next;
  next += program.found_bytes;
  out.protect_ = next;
  Bytes most = 0;
  for (const Instruction& instruction : program.instructions) {
    Bytes bytes = 0;
    for (const StorageId s : instruction.protect) bytes += graph.storage(s).bytes;
    most = std::max(most, bytes);
  }
  EBB_ASSIGN_OR_RETURN(out.memory_, device.MakeHostMemory(next + most));
  return out;
}

}  // namespace ebbtide::run
