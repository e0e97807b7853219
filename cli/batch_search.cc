#include "cli/batch_search.h"

#include <algorithm>

#include "cli/capture_model.h"
#include "cli/load.h"
#include "cli/python.h"
#include "cli/temporary_folder.h"
#include "estimate/largest_batch.h"
#include "graph/json.h"
#include "model/mxnet/mxnet.h"

namespace ebbtide::cli {
namespace {

// Of the batches that make up an update, every later one takes what the second does; two more are for the layout.
constexpr std::int64_t kMostPasses = 4;

bool IsGraphFile(const std::string& model) {
  if (model::mxnet::IsSymbolFile(model)) return false;  // made anew for each batch
  return model.ends_with(".json") || model.ends_with(".json.gz") || model.ends_with(".txt");
}

// The batch is all that can be chosen of a graph.
Status CheckGraphFlags(const ModelFlags& model) {
  std::vector<const CLI::Option*> flags = model.shaping;
  flags.insert(flags.end(), model.step.begin(), model.step.end());
  for (const CLI::Option* flag : flags) {
    if (flag->count() == 0 || flag->check_name("--batch-size")) continue;
    return Fail("{}: of no use with {}, a graph whose optimizer and shapes are fixed", flag->get_name(), model.model);
  }
  return {};
}

}  // namespace

bool HasFreeBatch(const ModelFlags& model, const std::vector<std::string>& others) {
  return !IsGraphFile(model.model) || !others.empty();
}

Result<AnyBatchModel> AnyBatchModel::Open(const ModelFlags& model, const std::vector<std::string>& others,
                                          const OutputFlags& output) {
  AnyBatchModel any(model, output);
  if (!others.empty() && !IsGraphFile(model.model)) {
    return Fail("--other-batch: of no use with {}, which can be made for any batch", model.model);
  }
  if (!HasFreeBatch(model, others)) {
    return Fail("{}: expected --other-batch FILE, a capture of the same step at another batch", model.model);
  }
  if (IsGraphFile(model.model)) {
    EBB_RETURN_IF_ERROR(CheckGraphFlags(model));
    std::vector<std::string> files = {model.model};
    files.insert(files.end(), others.begin(), others.end());
    EBB_RETURN_IF_ERROR(any.Combine(files));
  } else if (NamesScriptFunction(model.model)) {
    EBB_RETURN_IF_ERROR(CheckScriptFlags(model));
    EBB_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
    EBB_ASSIGN_OR_RETURN(const auto files, CaptureBatches(model, output, folder.File("step.json")));
    if (const Status combined = any.Combine({files.begin(), files.end()}); !combined) {
      return Within(model.model, combined.error());
    }
  }
  return any;
}

Status AnyBatchModel::Combine(const std::vector<std::string>& files) {
  EBB_ASSIGN_OR_RETURN(const TrainingGraph first, ReadGraph(files[0]));
  EBB_ASSIGN_OR_RETURN(const TrainingGraph second, ReadGraph(files[1]));
  const bool scripted = NamesScriptFunction(model_.model);
  const auto place = [&](const std::string& file, const Error& error) {
    return scripted ? tl::unexpected<Error>(error) : Within(file, error);  // a temporary file's name helps nobody
  };
  auto made = model::AnyBatch::Make(first, second);
  if (!made) return place(files[1], made.error());
  for (std::size_t i = 2; i < files.size(); ++i) {
    EBB_ASSIGN_OR_RETURN(const TrainingGraph third, ReadGraph(files[i]));
    if (const Status confirmed = made->Confirm(third); !confirmed) return place(files[i], confirmed.error());
  }
  captured_ = *std::move(made);
  return {};
}

Result<TrainingGraph> AnyBatchModel::At(std::int64_t batch) const {
  if (captured_) {
    auto graph = captured_->At(batch);
    if (!graph) return Within(model_.model, graph.error());
    return graph;
  }
  ModelFlags of_batch = model_;
  of_batch.options.batch_size = batch;
  of_batch.options.accumulate = passes();
  return Load(of_batch, output_);
}

std::int64_t AnyBatchModel::passes() const { return std::min(model_.options.accumulate, kMostPasses); }

std::optional<std::int64_t> AnyBatchModel::captured_batch() const {
  if (!captured_) return std::nullopt;
  return captured_->first_batch();
}

Result<std::int64_t> FindLargestBatch(const AnyBatchModel& model, const estimate::Options& options) {
  estimate::Options without_timeline = options;
  without_timeline.keep_timeline = false;
  const estimate::TryBatch attempt = [&](std::int64_t batch) -> Result<estimate::BatchTrial> {
    EBB_ASSIGN_OR_RETURN(const TrainingGraph graph, model.At(batch));
    const estimate::Estimate estimate = estimate::EstimateTraining(graph, without_timeline);
    return estimate::BatchTrial{estimate.fits, estimate.total()};
  };
  return estimate::LargestBatch(attempt, {.capacity = options.gpu.memory});
}

}  // namespace ebbtide::cli
