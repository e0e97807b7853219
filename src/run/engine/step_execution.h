// One iteration of a program, instruction by instruction: copies are queued and awaited at boundaries, ops run between
// them, and what they make gets to where the plan has it.
//
// Who calls decides how much of the program a call executes (whole_step.h, half_steps.h): Start, MoveIn, Walk over some
// or all instructions, and Finish; after a failure one of Undo and BringHome; and at last EndAll.
#pragma once

#include <vector>

#include "run/engine/captured_runs.h"
#include "run/engine/prepared_step.h"
#include "run/engine/shared_part.h"
#include "run/engine/step_memory.h"
#include "run/engine/step_recorder.h"
#include "run/engine/step_report.h"
#include "run/engine/storage_places.h"
#include "run/engine/undo_log.h"

namespace ebbtide::run {

class StepExecution {
 public:
  // `step` must outlive this.
  explicit StepExecution(PreparedStep& step);
  StepExecution(const StepExecution&) = delete;
  StepExecution& operator=(const StepExecution&) = delete;

  // From now on runs of these ops are captured and launched, in whole steps in a pool that is the step's own, on a
  // device that captures. No iteration runs.
  void SetCapturable(const IdVector<OpId, bool>& capturable);

  // ---- The course of an iteration
  // Nothing has happened yet. All memory of the host that the update needs is taken here.
  void Start();
  // Before the first op: what an undo needs is saved, and the inputs get their contents.
  RunStatus MoveIn(const StepCall& call);
  // The instructions [from, to).
  RunStatus Walk(const StepCall& call, StepId from, StepId to);
  // After the last op: outputs go to the host, all streams are done, and state is at home.
  RunStatus Finish(const StepCall& call);
  // A step whose update has not begun comes to nothing: state and random state are as before it. The device is idle.
  void Undo();
  // Nothing of the iteration is on the device any more but state.
  void EndAll();
  bool update_begun() const { return update_begun_; }

  PreparedStep& step() { return step_; }
  StepRecorder& recorder() { return recorder_; }
  const StepRecorder& recorder() const { return recorder_; }
  SharedPart& shared() { return shared_; }
  StoragePlaces& places() { return places_; }
  StepMemory& memory() { return memory_; }

 private:
  RunStatus PassBoundary(StepId step, const Instruction& instruction);
  RunStatus RunStep(StepId step, const Instruction& instruction, const StepCall& call);
  CapturedRun* RunFrom(StepId step, const StepCall& call);
  RunStatus WalkRun(CapturedRun& run, const StepCall& call);
  RunStatus LearnRun(CapturedRun& run, const StepCall& call);
  void Capture(CapturedRun& run, const StepCall& call);
  RunStatus LaunchRun(CapturedRun& run, const StepCall& call);
  RunStatus AwaitArrivals(StepId step);
  RunStatus RunOp(StepId step, const Instruction& instruction, const StepCall& call);
  RunStatus Settle(const Instruction& instruction);
  RunStatus MoveToPlaces(const Instruction& instruction);
  RunStatus SaveProtected(const Instruction& instruction);
  RunStatus RestoreProtected(const Instruction& instruction);
  // Puts what is on the host, one after the other, in the place of the instruction's `protect`.
  RunStatus WriteProtected(const Instruction& instruction, const std::byte* host);
  Status Declare(const Instruction& instruction);
  Nanos Waited(Nanos from, StepId begin, StepId end);
  RunStatus AwaitCopy(StayId stay, bool out);
  Result<Ticket> QueueCopy(StayId stay, bool out);
  std::vector<std::pair<Bytes, Bytes>> Spare(StepId step);
  void LeaveLane();

  PreparedStep& step_;
  Device& device_;
  StepRecorder recorder_;
  StoragePlaces places_;
  UndoLog undo_;
  SharedPart shared_;
  StepMemory memory_;
  IdVector<StayId, Ticket> tickets_;      // 0: its copy could not be queued
  IdVector<StorageId, StayId> arriving_;  // the stay whose copy nobody has waited for; none: there is none
  IdVector<StorageId, bool> new_;         // was awaited and not used since
  std::vector<Used> accesses_;
  std::vector<Made> made_;
  std::vector<CapturedRun> runs_;
  IdVector<StepId, std::int32_t> run_at_;  // by its first instruction; -1: none begins there
  bool update_begun_ = false;
};

}  // namespace ebbtide::run
