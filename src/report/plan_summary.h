// What a plan does with storages, and where its time goes: what tables, strips and pages show of it.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "sim/simulate.h"

namespace ebbtide::report {

using sim::Index;

struct Handling {
  std::int64_t storages = 0;
  Bytes bytes = 0;
};

// A storage that leaves the device and is wanted by a later op of the step. What recomputations make on the way, which
// the step itself would have let go, is none.
struct MovedStorage {
  Index storage = 0;
  Bytes bytes = 0;
  bool swapped = false;         // it comes back from the host at least once; otherwise it is made again
  std::int64_t returns = 0;     // how often it comes back
  Nanos leaves = 0, comes = 0;  // of its longest absence
  Nanos cost = 0;               // of all its copies in both directions, or of its own ops run again
};

// Compute stands still.
struct Stall {
  enum class Cause : std::uint8_t { kMemory, kData, kDrain };
  Nanos begin = 0, end = 0;
  Cause cause = Cause::kMemory;
  Index op = sim::kNone;       // that waits; kNone: the iteration's end does
  Index storage = sim::kNone;  // whose copy it waits for

  Nanos length() const { return end - begin; }
};

struct PlanSummary {
  Handling kept;  // saved for backward, and on the device throughout
  Handling swapped;
  Handling recomputed;
  std::vector<MovedStorage> moved;  // the largest first
  std::vector<Stall> stalls;        // in order of time
};

// `outcome` is that of the schedule, with its timeline.
PlanSummary Summarize(const sim::Workload& workload, const sim::Schedule& schedule, const sim::Outcome& outcome);

// "layer1.0.conv1.weight"; "convolution of layer1.0.conv1" for what an op makes.
std::string StorageLabel(const TrainingGraph& graph, const sim::Workload& workload, Index storage);
std::string OpLabel(const TrainingGraph& graph, Index op);

// "12.35 ms", "12.3 us".
std::string FormatTime(Nanos time);
// "1.108x"; "-" of nothing.
std::string FormatSlowdown(Nanos time, Nanos plain);

}  // namespace ebbtide::report
