// A lower limit on the time of an iteration within a budget, whoever plans it. docs/plan-bound.md has the proof.
#pragma once

#include <functional>

#include "plan/problem.h"

namespace ebbtide::plan {

struct BoundOptions {
  std::size_t most_ops = kLargeGraph;  // larger graphs get the limit from single moments alone
  std::size_t moments = 0;             // of the linear program; 0: as many as suit the size of the graph
  int most_pivots = 60'000;            // of its solver
  bool state_may_leave = false;        // also over schedules that copy out what was there before the step
};

// No valid schedule within the problem's limits takes less time. At the problem's deadline it is the limit that is
// known by then. Valid: it passes Validate, and runs again only what the workload's recipes hold. Where none is valid,
// the limit means nothing.
Nanos LowerBound(const Problem& problem, const BoundOptions& options = {});

// ---- Its parts
// The ops at which memory is shortest, at most `count` of them, spread over where it is short; in order.
std::vector<OpId> ShortMoments(const Problem& problem, std::size_t count);
// Whether a recipe holds the op and it may run again.
IdVector<OpId, bool> MayRunAgain(const Problem& problem);
// From one moment at a time: what is idle and has no room must be made again after it, or be copied out before it and
// in after it.
Nanos BoundFromMoments(const Problem& problem);
// From several moments together, with what making things again needs in its turn.
Nanos BoundFromProgram(const Problem& problem, const BoundOptions& options);

}  // namespace ebbtide::plan
