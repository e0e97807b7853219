// The layout of a schedule, and beside it what each step is given and what an undo needs.
#include "run/engine/program.h"

#include <map>

#include "sim/simulate.h"

namespace ebbtide::run {
namespace {

using sim::Begin;
using sim::End;
using sim::Stay;

void FindHomes(const TrainingGraph& graph, const sim::Schedule& schedule, Program& out) {
  out.home.assign(graph.storages.size(), -1);
  for (const Stay& stay : schedule.stays) {
    if (graph.storage(stay.storage).outside) continue;
    if (stay.begin == Begin::kPresent) out.home[stay.storage] = stay.address;
    if (stay.begin == Begin::kPresent && stay.end != End::kStays) out.moved.push_back(stay.storage);
  }
}

// Where the storages of a step go: a stay that begins with it, or the space beside its scratch memory.
void PlaceBirths(const TrainingGraph& graph, const sim::Workload& workload, const std::map<StorageId, Bytes>& begun,
                 Instruction& instruction) {
  for (const StorageId s : workload.births[instruction.op]) {
    Birth birth{.storage = s, .bytes = graph.storage(s).bytes};
    const auto stay = begun.find(s);
    if (stay != begun.end()) {
      birth.address = stay->second;
    } else {
      birth.kept = workload.bytes[s] == 0;
      birth.address = instruction.scratch_address;
      instruction.scratch_address += workload.bytes[s];
      instruction.scratch_bytes -= workload.bytes[s];
    }
    instruction.births.push_back(birth);
  }
}

}  // namespace

Program MakeProgram(const TrainingGraph& graph, const sim::Workload& workload, const sim::Schedule& schedule) {
  Program out;
  const StepId end = schedule.steps.end_id();
  FindHomes(graph, schedule, out);
  out.instructions.resize(schedule.steps.size() + 1);
  out.layout = sim::MakeLayout(workload, schedule);
  const IdVector<StepId, bool>& again = out.layout.again;
  const IdVector<StepId, Bytes> workspace = sim::StepWorkspace(workload, schedule);
  IdVector<StepId, std::map<StorageId, Bytes>> begun(out.instructions.size());
  for (const Stay& stay : schedule.stays) {
    if (stay.begin == Begin::kCompute || stay.begin == Begin::kRecompute) begun[stay.from][stay.storage] = stay.address;
  }
  std::map<OpId, DrawId> draws;  // of ops that run again
  std::map<OpId, Bytes> found;   // of all ops that run again: where they keep the state that they change
  for (const StepId k : schedule.steps.ids()) {
    const OpId op = schedule.steps[k];
    if (!again[k] || !found.emplace(op, out.found_bytes).second) continue;
    if (graph.op(op).random) draws.emplace(op, DrawId(draws.size()));
    for (const StorageId s : workload.changes[op]) {
      if (IsPersistent(graph.storage(s).kind)) out.found_bytes += graph.storage(s).bytes;
    }
  }
  out.draws = draws.size();
  out.first_update = end;
  IdVector<StorageId, bool> undone(graph.storages.size(), false);
  for (const StepId k : out.instructions.ids()) {
    Instruction& instruction = out.instructions[k];
    instruction.in_update = out.first_update < end;
    if (k == end) break;
    instruction.op = schedule.steps[k];
    instruction.again = again[k];
    if (!instruction.in_update && graph.op(instruction.op).phase == Phase::kUpdate) {
      instruction.in_update = true;
      out.first_update = k;
    }
    if (!schedule.workspace_address.empty() && schedule.workspace_address[k] >= 0) {
      instruction.scratch_address = schedule.workspace_address[k];
      instruction.scratch_bytes = workspace[k];
    }
    if (!instruction.again && graph.op(instruction.op).phase == Phase::kForward) out.middle = k.Next();
    PlaceBirths(graph, workload, begun[k], instruction);
    if (const auto draw = draws.find(instruction.op); draw != draws.end()) instruction.draw = draw->second;
    const auto runs_again = found.find(instruction.op);
    if (runs_again != found.end()) instruction.found = runs_again->second;
    for (const StorageId s : workload.changes[instruction.op]) {
      if (!IsPersistent(graph.storage(s).kind)) continue;
      if (runs_again != found.end()) instruction.protect.push_back(s);
      if (!instruction.in_update && !undone[s] && !graph.storage(s).outside) {
        undone[s] = true;
        out.undo.push_back(s);
      }
    }
  }
  return out;
}

}  // namespace ebbtide::run
