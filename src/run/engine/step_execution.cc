// The course of an iteration: how it begins and ends, and what enters and leaves at each boundary.
#include "run/engine/step_execution.h"

#include <algorithm>
#include <utility>

#include "run/engine/failures.h"

namespace ebbtide::run {

using sim::Stay;

StepExecution::StepExecution(PreparedStep& step)
    : step_(step),
      device_(step.device()),
      recorder_(step),
      places_(step, recorder_),
      undo_(step, places_),
      shared_(step, recorder_),
      memory_(step.device(), step.alignment()),
      tickets_(step.plan().schedule.stays.size()) {}

void StepExecution::Start() {
  const std::size_t storages = step_.workload().storages();
  arriving_.assign(storages, StayId());
  new_.assign(storages, false);
  update_begun_ = false;
  places_.Start();
  undo_.Start();
  recorder_.Start();
}

RunStatus StepExecution::MoveIn(const StepCall& call) {
  const Nanos begin = Now();
  const IdVector<StorageId, Bytes>& home = step_.program().home;
  const sim::Workload& workload = step_.workload();
  places_.EnterOutside(call);
  EBB_RUN(undo_.Save());
  for (const StorageId s : workload.storage_ids()) {
    if (!step_.region().InLane(home[s])) continue;
    EBB_RUN(shared_.Hold(home[s], workload.bytes[s]));
    step_.runner().Bind(s, device_.At(home[s]));
  }
  for (const HostSpan& span : call.inputs) {
    EBB_RUN(FromStatus(device_.Write(span.host, home[span.storage] + span.offset, span.bytes)));
  }
  for (const StorageId s : workload.storage_ids()) {
    if (home[s] < 0) continue;
    recorder_.Hold(workload.bytes[s]);
    recorder_.Reach(home[s], workload.bytes[s]);
  }
  recorder_.report().moving_in = Now() - begin;
  return {};
}

RunStatus StepExecution::Walk(const StepCall& call, StepId from, StepId to) {
  for (StepId k = from; k < to;) {
    const Instruction& instruction = step_.program().instructions[k];
    if ((!instruction.in_update || call.made_up) && call.interrupted && call.interrupted())
      return Failed(Failure::Kind::kInterrupted, "interrupted");
    if (CapturedRun* const run = RunFrom(k, call); run && run->end <= to) {
      EBB_RUN(WalkRun(*run, call));
      k = run->end;
      continue;
    }
    EBB_RUN(PassBoundary(k, instruction));
    if (instruction.op.valid()) EBB_RUN(RunStep(k, instruction, call));
    ++k;
  }
  return {};
}

RunStatus StepExecution::PassBoundary(StepId k, const Instruction& instruction) {
  const IdVector<StayId, Stay>& stays = step_.schedule().stays;
  const sim::Layout& layout = step_.program().layout;
  recorder_.ReachBoundary();
  for (const StayId i : layout.leaving[k]) {
    tickets_[i] = QueueCopy(i, true).value_or(0);
    recorder_.report().copied_out += step_.graph().storage(stays[i].storage).bytes;
  }
  for (const StayId i : layout.ending[k]) {
    const StorageId s = stays[i].storage;
    if (arriving_[s].valid()) EBB_RUN(AwaitCopy(std::exchange(arriving_[s], StayId()), false));
    if (stays[i].end == sim::End::kCopyOut) EBB_RUN(AwaitCopy(i, true));
    places_.End(s);
  }
  EBB_RUN(shared_.EnterGroup(k, instruction.in_update));
  recorder_.Release();
  for (const StayId i : layout.entering[k]) {
    const Stay& stay = stays[i];
    EBB_RUN(shared_.Hold(stay.address, step_.workload().bytes[stay.storage]));
    places_.Begin(stay.storage, stay.address);
    tickets_[i] = QueueCopy(i, false).value_or(0);
    arriving_[stay.storage] = i;
    recorder_.report().copied_in += step_.graph().storage(stay.storage).bytes;
  }
  return {};
}

Result<Ticket> StepExecution::QueueCopy(StayId i, bool out) {
  const Stay& stay = step_.schedule().stays[i];
  const Bytes bytes = step_.graph().storage(stay.storage).bytes;
  std::byte* const host = step_.host().CopyOf(stay.storage);
  Result<Ticket> ticket = out ? device_.CopyOut(stay.address, host, bytes) : device_.CopyIn(host, stay.address, bytes);
  if (ticket) recorder_.Queued(*ticket, i, out);
  return ticket;
}

// A copy that fails is made once more: the second time compute has nothing else to do.
RunStatus StepExecution::AwaitCopy(StayId i, bool out) {
  const Nanos begin = device_.Mark();
  Status done = tickets_[i] != 0 ? device_.Await(tickets_[i]) : Status(Fail("not queued"));
  if (!done) {
    const Result<Ticket> ticket = QueueCopy(i, out);
    done = ticket ? device_.Await(*ticket) : Status(tl::unexpected<Error>(ticket.error()));
  }
  recorder_.Add(begin, device_.Mark(), out ? &StepReport::wait_for_memory : &StepReport::wait_for_data);
  return FromStatus(done);
}

RunStatus StepExecution::Finish(const StepCall& call) {
  const Nanos last = device_.Mark();
  const IdVector<StayId, Stay>& stays = step_.schedule().stays;
  for (const HostSpan& span : call.outputs) {
    const auto stay = std::ranges::find_if(
        stays, [&](const Stay& s) { return s.storage == span.storage && s.end == sim::End::kStays; });
    if (stay == stays.end())
      return Failed(Failure::Kind::kOther, fmt::format("storage {} is no output", span.storage.value));
    EBB_RUN(Access(true, [&] { return device_.Save(stay->address + span.offset, span.host, span.bytes); }));
  }
  const bool all_home = step_.program().moved.empty();
  if (shared_.has_turns() && all_home) LeaveLane();
  device_.Drain();
  recorder_.report().drain = std::max<Nanos>(Now() - device_.When(last), 0);
  EBB_RUN(places_.BringHome());
  if (shared_.has_turns() && !all_home) LeaveLane();
  return {};
}

void StepExecution::LeaveLane() {
  EndAll();
  shared_.Leave();
}

void StepExecution::Undo() { undo_.Undo(); }

void StepExecution::EndAll() {
  shared_.LetGoOfOp(true);
  places_.EndAll();
}

}  // namespace ebbtide::run
