// What a planner is given, and what follows from it for every plan.
#pragma once

#include <vector>

#include "sim/schedule.h"
#include "sim/workload.h"

namespace ebbtide::plan {

using sim::Index;

// Ops above which whatever takes more than about linear time is left out.
inline constexpr std::size_t kLargeGraph = 20'000;

struct Limits {
  Bytes budget = 0;             // device memory: storages and workspaces
  Bytes host = Bytes{1} << 60;  // pinned host memory
  bool may_swap = true;
  bool may_recompute = true;
  bool may_move_state = false;  // what is there before the step may go to the host for a while
};

struct Problem {
  const sim::Workload* workload = nullptr;
  sim::Link link;
  Limits limits;

  // ---- Derived
  std::vector<Nanos> clock;        // by op, and one more: when it begins in the plain step
  std::vector<Nanos> again;        // by storage: time of the ops of its recipe; 0 where there is none
  std::vector<float> value;        // by storage: log2 of the time per byte to make it again; large where that cannot be
  std::vector<Bytes> needed;       // by op: its needs, births and workspace, which must be there at once
  std::vector<Bytes> live;         // by op: what lives while it runs when each storage goes with its last use
  std::vector<Bytes> before;       // by op: what of that is there before it runs
  std::vector<Index> longest_gap;  // by storage: the use that ends its longest time without one; kNone: there is none
  sim::Lists neighbours;           // by storage: those its recipe needs and those whose recipes need it, not of the
                                   // state that is there throughout
};

Problem MakeProblem(const sim::Workload& workload, const sim::Link& link, const Limits& limits);

// No plan needs less: the largest op with what it touches, beside what can neither be moved nor made again.
// `op`, where it is given: the op that needs it.
Bytes Floor(const Problem& problem, OpId* op = nullptr);

// Whether it is state that may go to the host for a while.
inline bool IsMovableState(const Problem& problem, Index s) {
  return problem.limits.may_swap && problem.limits.may_move_state && problem.workload->born[s] == sim::kNone;
}

}  // namespace ebbtide::plan
