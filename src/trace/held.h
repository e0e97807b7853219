// What a torch memory snapshot tells of one moment: which blocks were held, and by which lines of the program. The
// moment is the last request that failed; where none did, the one at which most was allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide::trace {

struct Frame {
  std::string file;
  std::int64_t line = 0;
  std::string function;
};
using Stack = std::vector<Frame>;  // innermost first; empty: no Python frame was there, as on autograd's threads

inline constexpr std::int32_t kNoStack = -1;        // none was recorded
inline constexpr std::int64_t kBeforeHistory = -1;  // made before the first entry

// One allocation of the history, or from before it.
struct Allocation {
  std::int64_t made = kBeforeHistory;  // its entry
  std::int64_t freed = -1;             // its entry; -1: never
  Bytes requested = 0;
  Bytes bytes = 0;  // what it takes of its segment
  std::int32_t stack = kNoStack;
};

struct FailedRequest {
  Bytes bytes = 0;
  Bytes device_free = 0;  // what the driver had left
  std::int32_t stack = kNoStack;
};

struct HeldMemory {
  std::vector<Stack> stacks;
  std::vector<Allocation> allocations;  // in the order in which they were made
  std::vector<std::int64_t> held;       // indices of `allocations`: those that live at the moment
  std::int64_t moment = -1;             // an entry of the history; -1: there is no history, the end
  std::int64_t entries = 0;             // of the history
  std::optional<FailedRequest> failed;  // the request of the moment
  std::int64_t failures = 0;            // in the whole history
  Bytes allocated = 0;                  // blocks that are held
  Bytes reserved = 0;                   // segments
  Bytes cached = 0;                     // segments in which nothing is held: torch gives them back when it must
  bool expandable = false;              // some segments are

  // Free memory in segments that are in use: nobody but their stream's next requests can have it.
  Bytes fragmentation() const { return reserved - cached - allocated; }
};

// Nothing in the pickle is executed. `device`: of a snapshot of several; -1: the first that has a history, or the first
// that has segments. Errors begin with `path`.
Result<HeldMemory> ReadHeldMemory(std::string_view pickle, const std::string& path, std::int64_t device = -1);

}  // namespace ebbtide::trace
