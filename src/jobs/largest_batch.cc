// The largest batch of a MODEL that fits a GPU.
#include "jobs/largest_batch.h"

#include "estimate/largest_batch.h"

namespace ebbtide::jobs {

Result<std::int64_t> FindLargestBatch(const AnyBatchModel& model, const estimate::Options& options,
                                      const JobContext& context) {
  estimate::Options without_timeline = options;
  without_timeline.keep_timeline = false;
  const estimate::TryBatch attempt = [&](std::int64_t batch) -> Result<estimate::BatchTrial> {
    EBB_RETURN_IF_ERROR(context.CheckStop());
    EBB_ASSIGN_OR_RETURN(const TrainingGraph graph, model.At(batch));
    const estimate::Estimate estimate = estimate::EstimateTraining(graph, without_timeline);
    return estimate::BatchTrial{estimate.fits, estimate.total()};
  };
  return estimate::LargestBatch(attempt, {.capacity = options.gpu.memory});
}

}  // namespace ebbtide::jobs
