// What a step is called with, and what it tells when it has ended.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "run/engine/op_runner.h"
#include "run/engine/turns.h"
#include "sim/schedule.h"

namespace ebbtide::run {

// Bytes of a storage from `offset` on, and where they come from or go to on the host.
struct HostSpan {
  StorageId storage;
  Bytes offset = 0;
  std::byte* host = nullptr;
  Bytes bytes = 0;
};

struct StepCall {
  std::vector<double> scalars = {};    // the graph's, in its order
  std::vector<HostSpan> inputs = {};   // copied to the device before the first op
  std::vector<HostSpan> outputs = {};  // copied to the host after the last
  // Where storages lie that are outside the pool: all that the ops of this call need, until it returns.
  std::vector<std::pair<StorageId, std::byte*>> outside = {};
  std::function<bool()> interrupted = {};  // asked now and then until the update begins; may be empty
  bool made_up = false;                    // state means nothing: `interrupted` is asked within the update too
  Turns* turns = nullptr;                  // of a pool that is shared
};

// What one step did.
struct StepReport {
  Nanos time = 0;
  Nanos recompute = 0;        // in ops that ran again
  Nanos wait_for_memory = 0;  // stood still for copies to the host
  Nanos wait_for_data = 0;    // ... for copies to the device
  Nanos drain = 0;            // from the last op to the last copy
  Nanos moving_in = 0;        // before the first op: inputs, what an undo needs
  Nanos wait_for_turn = 0;    // for its turns: before it began, which is not in `time`, and between its groups
  Bytes peak = 0;             // one past the highest address in use, as the plan has them
  Bytes live_peak = 0;        // the most bytes in use at once
  Bytes copied_out = 0, copied_in = 0;
  Bytes beyond_plan = 0;       // scratch memory that ops asked for and the plan did not know of; it is within the pool
  std::int64_t relocated = 0;  // storages that an op made elsewhere than planned, and that were moved
  std::int64_t graphs = 0, graph_ops = 0;  // runs that were launched as CUDA graphs (captured_runs.h), and ops in them
  IdVector<sim::StepId, Nanos> step_time;
  // In a pool that is shared, of each group: when its first op began and its last ended, by run::Now.
  std::vector<std::pair<Nanos, Nanos>> groups;
};

}  // namespace ebbtide::run
