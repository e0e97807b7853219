// Checkmate (Jain et al., 2020): the best schedule that only recomputes, as an integer program of one stage per op.
#pragma once

#include <optional>

#include "plan/problem.h"

namespace ebbtide::plan {

struct CheckmateOptions {
  Nanos better_than = 0;  // only schedules that take less are looked for; 0: any
  int most_nodes = 2000;  // of the search tree
};

struct CheckmateResult {
  std::optional<sim::Schedule> schedule;
  bool proved = false;  // there is none better; without a schedule: none better than what was asked for
};

// Columns grow with the square of the ops: for graphs of about a hundred. The solver is told how
// long it has until the deadline and cannot be asked to stop: where the problem is cancelled meanwhile, it goes on.
CheckmateResult Checkmate(const Problem& problem, const CheckmateOptions& options);

}  // namespace ebbtide::plan
