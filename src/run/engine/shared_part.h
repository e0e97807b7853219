// The part of a pool that is a step's own while it shares the pool with others: when it has its turn, how much of its
// lane it was given, and what it holds there. Where the pool is the step's own alone, there is nothing to wait for and
// nothing to hold.
#pragma once

#include <utility>
#include <vector>

#include "run/engine/prepared_step.h"
#include "run/engine/step_recorder.h"
#include "run/engine/turns.h"

namespace ebbtide::run {

class SharedPart {
 public:
  // Both arguments must outlive this.
  SharedPart(PreparedStep& step, StepRecorder& recorder) : step_(step), recorder_(recorder) {}

  // An iteration without turns begins.
  void BeginAlone() { turns_ = nullptr; }
  // Waits for the turn of the iteration, and places the step where it may lie.
  RunStatus Begin(Turns& turns);
  // Whether the iteration has turns.
  bool has_turns() const { return turns_ != nullptr; }
  // Before `step`: if a group begins with it, waits for the group's turn. What the groups before it needed is gone by
  // now, and nothing of its own is there yet. Does not fail where `must` says that the iteration has to go on.
  RunStatus EnterGroup(StepId step, bool must);
  // The iteration asks for nothing of the lane any more, and has let go of it.
  void Leave() { turns_->Left(); }
  // The iteration has ended, or is undone.
  void End();

  // The bytes are the step's until the device lets go of them. Nothing is done for what is not in the lane. Fails where
  // they are beyond the height that was given, or another's.
  RunStatus Hold(Bytes address, Bytes bytes);
  // What an op makes and needs meanwhile is its own before it runs.
  RunStatus HoldForOp(const Instruction& instruction);
  // The op has ended: of what it held, what it has made and is kept stays held. `all`: it has come to nothing.
  void LetGoOfOp(bool all);

  // What of the pool is the step's during `step` and in no use: (address, bytes).
  std::vector<std::pair<Bytes, Bytes>> FreeRanges(StepId step) const;

 private:
  PreparedStep& step_;
  StepRecorder& recorder_;
  Turns* turns_ = nullptr;
  Bytes granted_ = 0;                             // of the lane, from its end
  std::size_t group_ = 0;                         // of the region's groups: the one that runs
  std::vector<std::pair<Bytes, bool>> op_holds_;  // for the op that runs: address, and whether it is kept then
};

}  // namespace ebbtide::run
