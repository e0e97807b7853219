// What a step that fails before its update is undone with: state that forward and backward change, and the random
// state. And the random states that ops which run again have to draw from once more.
#pragma once

#include <vector>

#include "run/engine/prepared_step.h"
#include "run/engine/storage_places.h"

namespace ebbtide::run {

class UndoLog {
 public:
  // Both arguments must outlive the log.
  UndoLog(const PreparedStep& step, const StoragePlaces& places);

  // A step begins of which nothing has been saved.
  void Start() { saved_ = 0; }
  // State is at home and as the step finds it.
  RunStatus Save();
  // State is at home again, as Save found it, and so is the random state; what was not saved has not changed. What the
  // device cannot write is left as it is.
  void Undo();

  // Around the run of an op: one that runs again draws as it did the first time, and leaves the random state as it was.
  void BeforeRun(const Instruction& instruction);
  void AfterRun(const Instruction& instruction);

 private:
  std::byte* StateOf(DrawId draw) { return random_.data() + (1 + draw.index()) * random_bytes_; }

  const PreparedStep& step_;
  const StoragePlaces& places_;
  const std::size_t random_bytes_;  // of one random state
  std::vector<std::byte> random_;   // states: the one before the step, then one per draw
  std::vector<std::byte> now_;      // the one to go on with after an op that runs again
  std::size_t saved_ = 0;           // of the program's undo: how many were saved
};

}  // namespace ebbtide::run
