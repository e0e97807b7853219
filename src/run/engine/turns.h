// Where a step waits for its turn, if it shares its pool with others: before it begins, and before each group of its
// steps (step_region.h).
#pragma once

#include "run/engine/op_runner.h"

namespace ebbtide::run {

class Turns {
 public:
  // What an iteration is given when it may begin.
  struct Turn {
    Bytes lane = 0, lane_bytes = 0;  // of the pool
    bool from_top = false;           // which end of the lane the iteration has
    Bytes height = 0;                // how much of the lane, from that end, is its own during the group
  };
  virtual ~Turns() = default;

  // Waits until the iteration may begin with its first group. A failure: it may not; End is not called.
  virtual tl::expected<Turn, Failure> Begin() = 0;
  // What only steps before the group needed is let go of. Waits until the group may begin; its height. Does not fail
  // where `must` says that the iteration has to go on.
  virtual tl::expected<Bytes, Failure> Next(std::size_t group, bool must) = 0;
  // All of the iteration was given to the device: it asks for nothing of the lane any more.
  virtual void Left() = 0;
  // The iteration has ended, or is undone: nothing of it runs any more. After Left, if it has come to its end.
  virtual void End() = 0;
};

}  // namespace ebbtide::run
