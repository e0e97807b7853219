// The largest batches of a MODEL on a GPU, by estimates of one batch after another.
#pragma once

#include <cstdint>

#include "estimate/estimate.h"
#include "jobs/model.h"

namespace ebbtide::jobs {

struct LargestBatches {
  std::int64_t fits = 0;  // 0: not even one sample does
  std::int64_t safe = 0;  // whose safe figure (estimate/safety.h) is within the GPU's memory too; at most `fits`
};

// A batch, and what it takes of the rank that takes most.
struct TriedBatch {
  std::int64_t batch = 0;  // 0: none
  bool fits = false;
  Bytes total = 0, safe = 0;
};

// Asks `stop` of the context before each batch. `known` is not tried again.
Result<LargestBatches> FindLargestBatches(const AnyBatchModel& model, const estimate::Options& options,
                                          const JobContext& context, const TriedBatch& known = {});

}  // namespace ebbtide::jobs
