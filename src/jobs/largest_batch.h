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

// Asks `stop` of the context before each batch.
Result<LargestBatches> FindLargestBatches(const AnyBatchModel& model, const estimate::Options& options,
                                          const JobContext& context);

}  // namespace ebbtide::jobs
