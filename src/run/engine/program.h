// A plan's schedule laid out for execution: what happens at each boundary, and what each step is given.
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "sim/layout.h"
#include "sim/schedule.h"
#include "sim/workload.h"

namespace ebbtide::run {

using sim::StayId;
using sim::StepId;
using DrawId = Id<struct DrawTag>;  // a random op that runs more than once, and the random state kept for it

// A storage that a step makes.
struct Birth {
  StorageId storage;
  Bytes bytes = 0;  // as the graph has it, not rounded up
  Bytes address = 0;
  bool kept = true;  // false: made only because the op makes it too, and forgotten when the op has ended
};

// One step. What happens at the boundary before it is in the program's layout, under the same number.
struct Instruction {
  OpId op;  // none: the boundary that ends the iteration
  bool again = false;
  bool in_update = false;  // from the first op of the update on
  std::vector<Birth> births;
  Bytes scratch_address = 0, scratch_bytes = 0;  // for what the op needs meanwhile
  // State that an op changes which runs more than once. Its first run keeps what it finds; the others are given that,
  // and leave the state as it is.
  std::vector<StorageId> protect;
  Bytes found = 0;  // where on the host it is kept, among all that is
  DrawId draw;      // none: the op is not random, or runs once
};

struct Program {
  IdVector<StepId, Instruction> instructions;  // one per step, and one more
  sim::Layout layout;                          // which copies are queued and awaited, and which stays end
  std::size_t draws = 0;                       // random states to keep
  Bytes found_bytes = 0;                       // of state that ops which run again found the first time
  StepId middle{0};                 // the instruction after the last op of forward that runs for the first time
  StepId first_update{0};           // instructions before it can be undone
  std::vector<StorageId> undo;      // state that they change; what lies outside the pool is not ours to undo
  IdVector<StorageId, Bytes> home;  // the address of state when the iteration begins; -1 for all else
  std::vector<StorageId> moved;     // state that is elsewhere for a while, or when the iteration ends
};

// The schedule is placed and valid for the graph.
Program MakeProgram(const TrainingGraph& graph, const sim::Workload& workload, const sim::Schedule& schedule);

}  // namespace ebbtide::run
