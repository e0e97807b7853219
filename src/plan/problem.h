// What a planner is given, and what follows from it for every plan.
#pragma once

#include <functional>
#include <vector>

#include "base/deadline.h"
#include "sim/schedule.h"
#include "sim/workload.h"

namespace ebbtide::plan {

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
  Link link;
  Limits limits;
  // True: nobody wants the answer any more. Whatever works on the problem then returns soon, and what it returns means
  // nothing. Asked often, from several threads; once true, always true. Empty: never.
  std::function<bool()> cancelled;
  // Once it has passed, whatever works on the problem ends soon with what it has, which is still an answer.
  Deadline deadline = {};

  // ---- Derived
  IdVector<OpId, Nanos> clock;            // when it begins in the plain step; one more, for the end
  IdVector<StorageId, Nanos> again;       // time of the ops of its recipe; 0 where there is none
  IdVector<StorageId, float> value;       // log2 of the time per byte to make it again; large where that cannot be
  IdVector<StorageId, float> size;        // log2 of its bytes; 0 where it has none
  IdVector<OpId, Bytes> needed;           // its needs, births and workspace, which must be there at once
  IdVector<OpId, Bytes> live;             // what lives while it runs when each storage goes with its last use
  IdVector<OpId, Bytes> before;           // what of that is there before it runs
  IdVector<StorageId, OpId> longest_gap;  // the use that ends its longest time without one; none: there is none
  // Those its recipe needs and those whose recipes need it, without the state that is there throughout.
  sim::Lists<StorageId, StorageId> neighbours;
};

Problem MakeProblem(const sim::Workload& workload, const Link& link, const Limits& limits);

// No plan needs less: the largest op with what it touches, beside what can neither be moved nor made again.
// `op`, where it is given: the op that needs it.
Bytes Floor(const Problem& problem, OpId* op = nullptr);

inline bool IsCancelled(const Problem& problem) { return problem.cancelled && problem.cancelled(); }

// Whether nothing more should be tried.
inline bool IsLate(const Problem& problem) { return problem.deadline.Passed() || IsCancelled(problem); }

// Whether it is state that may go to the host for a while.
inline bool IsMovableState(const Problem& problem, StorageId s) {
  return problem.limits.may_swap && problem.limits.may_move_state && problem.workload->IsState(s);
}

}  // namespace ebbtide::plan
