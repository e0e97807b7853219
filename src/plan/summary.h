// What a plan does with storages, and where its time goes: what tables, strips and pages show of it.
#pragma once

#include <vector>

#include "sim/simulate.h"

namespace ebbtide::plan {

struct Handling {
  std::int64_t storages = 0;
  Bytes bytes = 0;
};

// A storage that leaves the device and is wanted by a later op of the step. What recomputations make on the way, which
// the step itself would have let go, is none.
struct MovedStorage {
  StorageId storage;
  Bytes bytes = 0;
  bool swapped = false;         // it comes back from the host at least once; otherwise it is made again
  std::int64_t returns = 0;     // how often it comes back
  Nanos leaves = 0, comes = 0;  // of its longest absence
  Nanos cost = 0;               // of all its copies in both directions, or of its own ops run again
};

// Compute stands still.
struct Stall {
  enum class Cause : std::uint8_t { kMemory, kData, kDrain, kRanks };
  Nanos begin = 0, end = 0;
  Cause cause = Cause::kMemory;
  OpId op;            // that waits; none: the iteration's end does
  StorageId storage;  // whose copy or collective it waits for; none: not known

  Nanos length() const { return end - begin; }
};

struct Summary {
  Handling kept;  // saved for backward, and on the device throughout
  Handling swapped;
  Handling recomputed;
  std::vector<MovedStorage> moved;  // the largest first
  std::vector<Stall> stalls;        // in order of time
};

// `outcome` is that of the schedule, with its timeline.
Summary Summarize(const sim::Workload& workload, const sim::Schedule& schedule, const sim::Outcome& outcome);

}  // namespace ebbtide::plan
