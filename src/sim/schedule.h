// What happens in one iteration, decided in advance: which ops run, and where each storage is.
//
// Two things are called a step. A *training step* is a whole iteration: forward, backward, update; users and
// run::Engine speak of that one. Here, in plans and in a program's instructions, a *step* of a schedule is one run of
// one op on the compute stream. A schedule's steps are in order: every op once in the graph's order, and runs again
// (recomputations) in between.
//
// A boundary lies before each step, and one more ends the iteration. A boundary is written as the id of the step behind
// it; that of the last boundary is steps.end_id(), one past the last step. So a range [from, to) of steps is also the
// time from boundary `from` to boundary `to`.
#pragma once

#include <cstdint>

#include "base/id_vector.h"
#include "base/units.h"
#include "device/link.h"

namespace ebbtide::sim {

using StepId = Id<struct StepTag>;  // one run of one op in a schedule; or the boundary before it
using StayId = Id<struct StayTag>;  // one stay of a storage on the device

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
  StorageId storage;
  StepId from{0}, to{0};
  Begin begin = Begin::kCompute;
  End end = End::kFree;
  StepId leave{0};         // only for a copy-out
  std::uint32_t turn = 0;  // ... the copies that leave at one boundary are queued in the order of their turns
  Bytes address = -1;      // -1: not placed yet

  bool operator==(const Stay&) const = default;
};

struct Schedule {
  IdVector<StepId, OpId> steps;               // the op each step runs
  IdVector<StayId, Stay> stays;               // ordered by (from, storage)
  IdVector<StepId, Bytes> workspace_address;  // empty: not placed yet. -1 where the step has no workspace

  bool operator==(const Schedule&) const = default;
};

}  // namespace ebbtide::sim
