// The largest batch of a MODEL that fits a GPU, by estimates of one batch after another.
#pragma once

#include <cstdint>

#include "estimate/estimate.h"
#include "jobs/model.h"

namespace ebbtide::jobs {

// 0: not even one sample fits. Asks `stop` of the context before each batch.
Result<std::int64_t> FindLargestBatch(const AnyBatchModel& model, const estimate::Options& options,
                                      const JobContext& context);

}  // namespace ebbtide::jobs
