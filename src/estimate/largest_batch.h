// The largest batch that fits a device, by search on the exact simulation.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide::estimate {

// One batch tried.
struct BatchTrial {
  bool fits = false;
  Bytes total = 0;  // what it takes of a device that is large enough
};
using TryBatch = std::function<Result<BatchTrial>(std::int64_t batch)>;

struct BatchSearchOptions {
  Bytes capacity = 0;                         // of the device; it steers the search and decides nothing
  std::int64_t most = std::int64_t{1} << 24;  // larger batches are not tried
  // Memory is not monotone in the batch: libraries choose algorithms by it, and an allocator lays out blocks by their
  // sizes. So this many batches above one that fits must fail before it is taken for the largest.
  std::int64_t above = 16;
};

// A batch that fits while none of the `above` next ones does; 0 where one sample does not fit. Each batch is tried
// at most once. The first error of `attempt` ends the search.
Result<std::int64_t> LargestBatch(const TryBatch& attempt, const BatchSearchOptions& options);

}  // namespace ebbtide::estimate
