// A training step as the simulator and every planner see it: what each op takes, makes and costs.   ◀ start reading
// here
//
// Ops and storages have the numbers of the graph. Sizes are rounded up to the alignment of device memory, so that sums
// of them are what addresses can hold.
#pragma once

#include <vector>

#include "base/id_vector.h"
#include "base/result.h"
#include "base/units.h"
#include "graph/graph.h"
#include "sim/lists.h"

namespace ebbtide::sim {

struct Workload {
  // ---- Ops, in execution order
  IdVector<OpId, Nanos> time;       // on the compute stream; 0 of ops that run beside it
  IdVector<OpId, Bytes> workspace;  // scratch memory while it runs
  Lists<OpId, StorageId> needs;     // storages whose contents it reads or changes, without repeats; a view needs none
  Lists<OpId, StorageId> births;    // storages it makes
  Lists<OpId, StorageId> changes;   // storages it changes that were there before, a part of `needs`
  IdVector<OpId, bool> in_backward;

  // ---- Storages
  IdVector<StorageId, Bytes> bytes;
  IdVector<StorageId, OpId> born;            // the op that makes it; none: it is there before the step
  IdVector<StorageId, OpId> last_reference;  // the op after which a framework lets go of it; none: it outlives the step
  IdVector<StorageId, bool> outlives;        // still wanted when the step has ended
  Lists<StorageId, OpId> uses;               // ops that need it or make it, in order
  // The ops that make its contents, in order: the one that makes it and those that change it. Run again in this order
  // they give the same bits; empty: they would not (docs/plan.md says when).
  Lists<StorageId, OpId> recipe;

  // ---- Ops on the communication stream, beside computation; all empty where there are none
  IdVector<OpId, bool> beside;
  IdVector<OpId, Nanos> exchange;        // their time on that stream; 0 of others
  IdVector<StorageId, OpId> held_until;  // the op of the compute stream that waits for the last of them that uses the
                                         // storage, at the latest the step's last; none: none uses it
  bool exchanges_use_host_link = false;  // they and the copies to and from the host take turns on one link

  Bytes alignment = 1;  // sizes are multiples of it

  std::size_t ops() const { return time.size(); }
  std::size_t storages() const { return bytes.size(); }
  Ids<OpId> op_ids() const { return time.ids(); }
  Ids<StorageId> storage_ids() const { return bytes.ids(); }
  // There before the step: parameters, buffers, optimizer state, inputs.
  bool IsState(StorageId s) const { return !born[s].valid(); }
  bool HasExchanges() const { return !beside.empty(); }
  bool RunsBeside(OpId op) const { return HasExchanges() && beside[op]; }
  // What running it once takes, on whichever stream.
  Nanos Cost(OpId op) const { return HasExchanges() ? time[op] + exchange[op] : time[op]; }
};

struct WorkloadOptions {
  Bytes alignment = 512;                 // of every storage and workspace
  bool exchanges_use_host_link = false;  // as in Workload
};

// `times`: one per op. The graph is one that passes Check.
Workload MakeWorkload(const TrainingGraph& graph, std::vector<Nanos> times, const WorkloadOptions& options = {});

// The step as a framework runs it: nothing is moved, each storage goes with its last reference.
Bytes PlainPeak(const Workload& workload);
// Ops of the communication stream run beside the others, as simulate.h says; nothing waits for memory.
Nanos PlainTime(const Workload& workload);
// Live bytes and workspace during each op of the plain step.
IdVector<OpId, Bytes> PlainProfile(const Workload& workload);

}  // namespace ebbtide::sim
