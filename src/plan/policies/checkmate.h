// Checkmate (Jain et al., 2020): the best schedule that only recomputes, as an integer program of one stage per op.
#pragma once

#include <optional>

#include "plan/problem.h"

namespace ebbtide::plan {

struct CheckmateOptions {
  Nanos better_than = 0;    // only schedules that take less are looked for; 0: any
  int most_nodes = 2000;    // of the search tree
  double most_seconds = 0;  // 0: no limit
};

struct CheckmateResult {
  std::optional<sim::Schedule> schedule;
  bool proved = false;  // there is none better; without a schedule: none better than what was asked for
};

// Columns grow with the square of the ops: for graphs of about a hundred. The solver cannot be asked to stop: where the
// problem is cancelled meanwhile, it goes on to its limits.
CheckmateResult Checkmate(const Problem& problem, const CheckmateOptions& options);

}  // namespace ebbtide::plan
