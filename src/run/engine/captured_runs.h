// Runs of instructions that a device captures once, as a CUDA graph, and launches again in later iterations: ops at
// fixed addresses between two moments at which copies begin or are waited for.
//
// The first iteration runs them op by op and learns what they touch; the second captures them; from then on they are
// launched. A run that cannot be captured stays as it is, op by op.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "run/engine/prepared_step.h"

namespace ebbtide::run {

// What an instruction took beside its births, while it ran.
struct ScratchUse {
  Bytes most = 0;                              // at once
  std::vector<std::pair<Bytes, Bytes>> given;  // (address, bytes)
};

struct CapturedRun {
  StepId begin, end;  // the instructions [begin, end)
  // ---- Learnt when it ran op by op, all in the places that the plan has
  bool known = false;
  std::vector<Used> accesses;       // of all its ops
  std::vector<ScratchUse> scratch;  // by instruction
  // ----
  std::shared_ptr<CapturedWork> work;  // null: it was not captured yet
  bool refused = false;                // a capture of it has failed
};

// The longest runs of instructions whose ops are `capturable`, in order. Within them nothing is copied or awaited, no
// random state is drawn from, nothing lies outside the pool, and the update does not begin. Each has at least two ops
// that are no views.
std::vector<CapturedRun> FindRuns(const PreparedStep& step, const IdVector<OpId, bool>& capturable);

// Whether the op only makes views: it launches nothing, and is to be called all the same.
bool OnlyViews(const PreparedStep& step, const Instruction& instruction);

}  // namespace ebbtide::run
