// One op of an iteration: what it needs is waited for, it runs in the memory that it is given, and what it has made
// gets to its place.
#include <algorithm>
#include <utility>

#include "run/engine/failures.h"
#include "run/engine/step_execution.h"

namespace ebbtide::run {

RunStatus StepExecution::AwaitArrivals(StepId k) {
  for (const StayId i : step_.program().layout.arrivals[k]) {
    const StorageId s = step_.schedule().stays[i].storage;
    EBB_RUN(AwaitCopy(i, false));
    arriving_[s] = StayId();
    new_[s] = true;
  }
  return {};
}

RunStatus StepExecution::RunStep(StepId k, const Instruction& instruction, const StepCall& call) {
  EBB_RUN(AwaitArrivals(k));
  EBB_RUN(SaveProtected(instruction));
  undo_.BeforeRun(instruction);
  for (const Birth& birth : instruction.births) {
    if (birth.bytes > 0) recorder_.Reach(birth.address, step_.workload().bytes[birth.storage]);
  }
  EBB_RUN(shared_.HoldForOp(instruction));
  update_begun_ = update_begun_ || instruction.in_update;
  RunStatus ran = RunOp(k, instruction, call);
  undo_.AfterRun(instruction);
  EBB_RUN(RestoreProtected(instruction));
  if (!ran) {
    const Op& op = step_.graph().op(instruction.op);
    ran.error().message = fmt::format("op {} ({}{}{}): {}", instruction.op.value, op.kind,
                                      op.layer.empty() ? "" : " of ", op.layer, ran.error().message);
    return ran;
  }
  return Settle(instruction);
}

RunStatus StepExecution::RunOp(StepId k, const Instruction& instruction, const StepCall& call) {
  memory_.Begin(instruction, step_.requests()[instruction.op], [this, k] { return Spare(k); });
  Nanos begin = device_.Mark();
  RunStatus ran = Access(instruction.in_update, [&] { return Declare(instruction); });
  if (ran) {
    begin = Waited(begin, k, k.Next());
    const bool by_thread = recorder_.counts_thread_time();
    const Nanos own = by_thread ? ThreadNow() : 0;
    ran = step_.runner().Run(instruction.op, call.scalars, memory_, made_);
    if (by_thread) recorder_.RanOnThread(k, ThreadNow() - own);
    device_.EndOp();
  }
  recorder_.Ran(k, instruction, begin, device_.Mark());
  return ran;
}

RunStatus StepExecution::SaveProtected(const Instruction& instruction) {
  std::byte* host = instruction.again ? step_.host().protect() : step_.host().FoundBy(instruction);
  for (const StorageId s : instruction.protect) {
    const Bytes bytes = step_.graph().storage(s).bytes;
    EBB_RUN(Access(instruction.in_update, [&] { return device_.Save(places_.AddressOf(s), host, bytes); }));
    host += bytes;
  }
  return instruction.again ? WriteProtected(instruction, step_.host().FoundBy(instruction)) : RunStatus();
}

RunStatus StepExecution::RestoreProtected(const Instruction& instruction) {
  return instruction.again ? WriteProtected(instruction, step_.host().protect()) : RunStatus();
}

RunStatus StepExecution::WriteProtected(const Instruction& instruction, const std::byte* host) {
  for (const StorageId s : instruction.protect) {
    const Bytes bytes = step_.graph().storage(s).bytes;
    EBB_RUN(Access(instruction.in_update, [&] { return device_.Restore(host, places_.AddressOf(s), bytes); }));
    host += bytes;
  }
  return {};
}

// Tells the device what the op is about to touch.
Status StepExecution::Declare(const Instruction& instruction) {
  const sim::Workload& workload = step_.workload();
  accesses_.clear();
  const auto add = [&](StorageId s, Bytes address, bool writes) {
    accesses_.push_back({address, step_.graph().storage(s).bytes, writes});
  };
  for (const StorageId s : workload.needs[instruction.op]) add(s, places_.AddressOf(s), false);
  for (const StorageId s : workload.changes[instruction.op]) add(s, places_.AddressOf(s), true);
  for (const Birth& birth : instruction.births) add(birth.storage, birth.address, true);
  accesses_.push_back({instruction.scratch_address, instruction.scratch_bytes, true});
  return device_.BeginOp(step_.graph().op(instruction.op).kind.c_str(), accesses_);
}

// Compute stood still for what the instructions [begin, end) were to touch, from the mark on: until when.
Nanos StepExecution::Waited(Nanos from, StepId begin, StepId end) {
  const Nanos until = device_.Mark();
  bool for_data = false;
  for (const StepId k : Ids(begin, end)) {
    for (const StorageId s : step_.workload().needs[step_.program().instructions[k].op]) {
      for_data = for_data || new_[s];
      new_[s] = false;
    }
  }
  recorder_.Add(from, until, for_data ? &StepReport::wait_for_data : &StepReport::wait_for_memory);
  return until;
}

// What the op may have beyond the plan, told to the device as well.
std::vector<std::pair<Bytes, Bytes>> StepExecution::Spare(StepId k) {
  std::vector<std::pair<Bytes, Bytes>> ranges = shared_.FreeRanges(k);
  std::vector<Used> accesses;
  for (const auto& [address, bytes] : ranges) accesses.push_back({address, bytes, true});
  if (!device_.BeginOp("memory beyond the plan", accesses)) return {};
  device_.EndOp();
  return ranges;
}

// What the op has made gets to where the plan has it, and what it only needed meanwhile is gone.
RunStatus StepExecution::Settle(const Instruction& instruction) {
  EBB_RUN(MoveToPlaces(instruction));
  Bytes beside = 0;
  for (const Birth& birth : instruction.births) {
    if (birth.kept) {
      places_.Begin(birth.storage, birth.address);
    } else {
      beside += step_.workload().bytes[birth.storage];
    }
  }
  shared_.LetGoOfOp(false);
  recorder_.HoldBriefly(beside + memory_.most());
  for (const auto& [address, bytes] : memory_.given()) recorder_.Reach(address, bytes);
  StepReport& report = recorder_.report();
  report.beyond_plan = std::max(report.beyond_plan, memory_.beyond());
  return {};
}

// By way of the host: a place may overlap what was made elsewhere.
RunStatus StepExecution::MoveToPlaces(const Instruction& instruction) {
  const Op& op = step_.graph().op(instruction.op);
  if (made_.size() != instruction.births.size()) {
    return Failed(Failure::Kind::kOther,
                  fmt::format("op {} ({}): made {} storages, the graph has {}", instruction.op.value, op.kind,
                              made_.size(), instruction.births.size()));
  }
  std::vector<std::pair<std::size_t, std::vector<std::byte>>> elsewhere;
  for (std::size_t i = 0; i < made_.size(); ++i) {
    const Birth& birth = instruction.births[i];
    const Made& made = made_[i];
    if (made.bytes > step_.workload().bytes[birth.storage]) {
      return Failed(Failure::Kind::kOther, fmt::format("op {} ({}): made {} bytes, the graph has {}",
                                                       instruction.op.value, op.kind, made.bytes, birth.bytes));
    }
    if (made.bytes == 0 || made.at == device_.At(birth.address)) continue;
    ++recorder_.report().relocated;
    if (!birth.kept) continue;
    std::vector<std::byte>& bytes =
        elsewhere.emplace_back(i, std::vector<std::byte>(static_cast<std::size_t>(made.bytes))).second;
    EBB_RUN(
        Access(instruction.in_update, [&] { return device_.Read(made.at - device_.At(0), bytes.data(), made.bytes); }));
  }
  for (const auto& moved : elsewhere) {
    const Birth& birth = instruction.births[moved.first];
    EBB_RUN(Access(instruction.in_update,
                   [&] { return device_.Write(moved.second.data(), birth.address, made_[moved.first].bytes); }));
  }
  Requests& requests = step_.requests()[instruction.op];
  if (!elsewhere.empty() || requests.empty()) requests = memory_.RequestsOf(made_);
  return {};
}

}  // namespace ebbtide::run
