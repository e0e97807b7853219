// One iteration of a schedule in time: a compute stream, a copy stream each way, and a communication stream.
//
// At boundary k, which compute reaches when step k-1 has ended:
//   1. the copies to the host that leave here are queued, in the order of their turns;
//   2. compute waits for the copies to the host of the stays that end here;
//   3. then the copies to the device that begin here are queued, in the order in which the graph's ops next need them;
//   4. compute waits for those copies that step k is the first to need, and step k runs.
// Which these are, layout.h tells.
//
// A step whose op runs beside computation (collectives) is queued on the communication stream in 4, where compute has
// waited for copies as ever, and begins when those before it have ended; compute goes on at once. Compute waits for it
// before a step that needs what it makes or changes, or that changes what it uses, and at a boundary where a stay of
// what it uses ends. Run again, it is waited for at once. Where collectives go over the link to the host, they and the
// copies take turns in the order in which they are queued. The iteration ends when all streams are done.
#pragma once

#include <vector>

#include "sim/layout.h"
#include "sim/schedule.h"
#include "sim/workload.h"

namespace ebbtide::sim {

enum class Stream : std::uint8_t { kCompute, kToHost, kToDevice, kExchange };

struct Span {
  Stream stream = Stream::kCompute;
  Nanos begin = 0, end = 0;
  OpId op;             // that ran
  StorageId storage;   // that was copied
  bool again = false;  // a recomputation
};

struct Outcome {
  Nanos time = 0;
  Bytes peak = 0;             // of device memory, without regard to addresses
  Bytes host_peak = 0;        // of pinned host memory
  Nanos recompute = 0;        // spent in running ops again
  Nanos wait_for_memory = 0;  // compute stood still for copies to the host
  Nanos wait_for_data = 0;    // ... for copies to the device
  Nanos wait_for_ranks = 0;   // ... for ops of the communication stream
  Nanos exchange = 0;         // how long the communication stream was busy
  Nanos drain = 0;            // from the last op to the last copy or collective
  Bytes copied_out = 0, copied_in = 0;
  // ---- Only if asked for
  std::vector<Span> timeline;
  IdVector<StepId, Nanos> boundary;  // when compute reaches each
  IdVector<StepId, Nanos> released;  // ... and has waited for the copies to the host that end there
  IdVector<StayId, Nanos> left;      // when its copy to the host is done; 0 where it has none
  IdVector<StayId, Nanos> used;      // when the communication stream is done with it; 0 where it never uses it; empty
                                     // without such a stream
};

struct SimulateOptions {
  bool keep_timeline = false;
};

// The schedule is one that passes plan::Validate.
Outcome Simulate(const Workload& workload, const Schedule& schedule, const Link& link,
                 const SimulateOptions& options = {});

// Device memory during each step.
IdVector<StepId, Bytes> StepBytes(const Workload& workload, const Schedule& schedule);
// One past the highest address in use. The schedule is placed.
Bytes Height(const Workload& workload, const Schedule& schedule);
// Workspace of each step: the op's own, and where an op runs again, what it makes that begins no stay then.
IdVector<StepId, Bytes> StepWorkspace(const Workload& workload, const Schedule& schedule);

}  // namespace ebbtide::sim
