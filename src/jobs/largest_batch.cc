// The largest batch of a MODEL that fits a GPU, and the largest that is safe there.
#include "jobs/largest_batch.h"

#include <algorithm>
#include <map>

#include "estimate/largest_batch.h"
#include "estimate/safety.h"

namespace ebbtide::jobs {
Result<LargestBatches> FindLargestBatches(const AnyBatchModel& model, const estimate::Options& options,
                                          const JobContext& context, const TriedBatch& known) {
  estimate::Options without_timeline = options;
  without_timeline.keep_timeline = false;
  std::map<std::int64_t, TriedBatch> tried;  // both searches ask near the same batches
  if (known.batch > 0) tried.emplace(known.batch, known);
  const auto attempt = [&](std::int64_t batch) -> Result<TriedBatch> {
    if (const auto before = tried.find(batch); before != tried.end()) return before->second;
    EBB_RETURN_IF_ERROR(context.CheckStop());
    TriedBatch trial{batch, true, 0, 0};
    for (std::int64_t stage = 0; stage < model.stages(); ++stage) {
      EBB_ASSIGN_OR_RETURN(const TrainingGraph graph, model.At(batch, stage));
      const estimate::Estimate estimate = estimate::EstimateTraining(graph, without_timeline);
      trial.fits = trial.fits && estimate.fits;
      trial.total = std::max(trial.total, estimate.total());
      trial.safe = std::max(trial.safe, estimate::SafeTotal(estimate, graph).bytes);
    }
    tried.emplace(batch, trial);
    return trial;
  };
  const Bytes capacity = options.gpu.memory;
  const auto fits = [&](std::int64_t batch) -> Result<estimate::BatchTrial> {
    EBB_ASSIGN_OR_RETURN(const TriedBatch trial, attempt(batch));
    return estimate::BatchTrial{trial.fits, trial.total};
  };
  const auto is_safe = [&](std::int64_t batch) -> Result<estimate::BatchTrial> {
    EBB_ASSIGN_OR_RETURN(const TriedBatch trial, attempt(batch));
    return estimate::BatchTrial{trial.fits && trial.safe <= capacity, trial.safe};
  };
  LargestBatches largest;
  EBB_ASSIGN_OR_RETURN(largest.fits, estimate::LargestBatch(fits, {.capacity = capacity}));
  EBB_ASSIGN_OR_RETURN(largest.safe, estimate::LargestBatch(is_safe, {.capacity = capacity}));
  largest.fits = std::max(largest.fits, largest.safe);  // what is safe fits
  return largest;
}

}  // namespace ebbtide::jobs
