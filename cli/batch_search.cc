#include "cli/batch_search.h"

#include "cli/load.h"
#include "cli/python.h"
#include "estimate/largest_batch.h"

namespace ebbtide::cli {

bool HasFreeBatch(const std::string& model) {
  return !NamesScriptFunction(model) && !model.ends_with(".json") && !model.ends_with(".json.gz");
}

Result<std::int64_t> FindLargestBatch(const ModelFlags& model, const OutputFlags& output,
                                      const estimate::Options& options) {
  estimate::Options without_timeline = options;
  without_timeline.keep_timeline = false;
  const estimate::TryBatch attempt = [&](std::int64_t batch) -> Result<estimate::BatchTrial> {
    ModelFlags of_batch = model;
    of_batch.options.batch_size = batch;
    EBB_ASSIGN_OR_RETURN(const TrainingGraph graph, Load(of_batch, output));
    const estimate::Estimate estimate = estimate::EstimateTraining(graph, without_timeline);
    return estimate::BatchTrial{estimate.fits, estimate.total()};
  };
  return estimate::LargestBatch(attempt, {.capacity = options.gpu.memory});
}

}  // namespace ebbtide::cli
