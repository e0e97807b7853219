// What happens in one iteration, decided in advance: which ops run, and where each storage is.
//
// Steps are the runs of ops on the compute stream, in order: every op once in the graph's order, and runs again
// (recomputations) in between. Boundary k lies before step k; boundary `steps.size()` ends the iteration.
#pragma once

#include <vector>

#include "base/units.h"
#include "sim/lists.h"

namespace ebbtide::sim {

enum class Begin : std::uint8_t {
  kPresent,    // it is there when the iteration begins
  kCompute,    // an op makes it for the first time
  kCopyIn,     // comes from the host
  kRecompute,  // an op makes it again
};
enum class End : std::uint8_t {
  kFree,     // nobody wants it any more
  kDrop,     // the host has a copy, or it is made again later
  kCopyOut,  // the host gets a copy first
  kStays,    // it is there when the iteration has ended
};

// Device memory held for one storage during the steps [from, to), half-open.
//   A copy-in is queued at boundary `from`; the first step of the stay that needs the storage waits for it.
//   A copy-out is queued at boundary `leave`; boundary `to` waits for it.
struct Stay {
  Index storage = 0;
  Index from = 0, to = 0;
  Begin begin = Begin::kCompute;
  End end = End::kFree;
  Index leave = 0;     // only for a copy-out
  Index turn = 0;      // ... the copies that leave at one boundary are queued in the order of their turns
  Bytes address = -1;  // -1: not placed yet

  bool operator==(const Stay&) const = default;
};

struct Schedule {
  std::vector<Index> steps;              // the op each step runs
  std::vector<Stay> stays;               // ordered by (from, storage)
  std::vector<Bytes> workspace_address;  // by step; empty: not placed yet. -1 where the step has no workspace

  bool operator==(const Schedule&) const = default;
};

// The link to the host: each direction its own stream, a copy at a time.
struct Link {
  double to_device = 12e9;  // bytes per second
  double to_host = 12e9;
  Nanos latency = 0;  // of each copy

  Nanos TimeIn(Bytes bytes) const { return latency + Transfer(bytes, to_device); }
  Nanos TimeOut(Bytes bytes) const { return latency + Transfer(bytes, to_host); }

 private:
  static Nanos Transfer(Bytes bytes, double bandwidth) {
    return static_cast<Nanos>(static_cast<double>(bytes) * 1e9 / bandwidth) + (bytes > 0 ? 1 : 0);
  }
};

}  // namespace ebbtide::sim
