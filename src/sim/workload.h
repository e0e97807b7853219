// A training step as the simulator and every planner see it: what each op takes, makes and costs.   ◀ start reading here
//
// Ops and storages have the numbers of the graph. Sizes are rounded up to the alignment of device memory, so that sums
// of them are what addresses can hold.
#pragma once

#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "graph/graph.h"
#include "sim/lists.h"

namespace ebbtide::sim {

inline constexpr Index kNone = ~Index{0};

struct Workload {
  // ---- Ops, in execution order
  std::vector<Nanos> time;
  std::vector<Bytes> workspace;  // scratch memory while it runs
  Lists needs;                   // storages whose contents it reads or changes, without repeats; a view needs none
  Lists births;                  // storages it makes
  Lists changes;                 // storages it changes that were there before, a part of `needs`
  std::vector<bool> in_backward;

  // ---- Storages
  std::vector<Bytes> bytes;
  std::vector<Index> born;           // the op that makes it; kNone: it is there before the step
  std::vector<Index> last_reference; // the op after which a framework lets go of it; kNone: it outlives the step
  std::vector<bool> outlives;        // still wanted when the step has ended
  Lists uses;                        // ops that need it or make it, in order
  // The ops that make its contents, in order: the one that makes it and those that change it. Run again in this order
  // they give the same bits; empty: they would not (docs/plan.md says when).
  Lists recipe;

  Bytes alignment = 1;  // sizes are multiples of it

  std::size_t ops() const { return time.size(); }
  std::size_t storages() const { return bytes.size(); }
};

struct WorkloadOptions {
  Bytes alignment = 512;  // of every storage and workspace
};

// `times`: one per op. The graph is one that passes Check.
Workload MakeWorkload(const TrainingGraph& graph, std::vector<Nanos> times, const WorkloadOptions& options = {});

// The step as a framework runs it: nothing is moved, each storage goes with its last reference.
Bytes PlainPeak(const Workload& workload);
Nanos PlainTime(const Workload& workload);
// Live bytes and workspace during each op of the plain step.
std::vector<Bytes> PlainProfile(const Workload& workload);

}  // namespace ebbtide::sim
