// Loads the models of a mix at the batches they are asked for, and has them arranged.
#include "jobs/share.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "graph/graph.h"

namespace ebbtide::jobs {
namespace {

// Trainings of the jobs at any batch, each made once; jobs that are alike share one.
class Trainings {
 public:
  Trainings(const ShareRequest& request, const JobContext& context) : request_(request), context_(context) {}

  Result<std::shared_ptr<const share::Training>> At(std::size_t number, std::int64_t batch) {
    const ShareJobRequest& job = request_.jobs[number];
    auto& known = made_[{job.model.model, job.model.graph.get(), batch, job.weight, job.priority}];
    if (known) return known;
    EBB_ASSIGN_OR_RETURN(TrainingGraph graph, GraphAt(job, batch));
    if (graph.ops.empty()) return Fail("{}: expected a training step with ops", job.model.model);
    share::TrainingOptions options{
        .model = job.model.model, .batch = batch, .weight = job.weight, .priority = job.priority};
    options.alignment = AlignmentOf(graph.framework);
    return known = share::MakeTraining(std::move(options), std::move(graph), request_.gpu);
  }

 private:
  Result<TrainingGraph> GraphAt(const ShareJobRequest& job, std::int64_t batch) {
    if (!AnyBatchModel::IsPossible(job.model)) {
      if (request_.max_batch || job.batch_given) {
        return Fail("{}: a graph file has the batch it was captured at; expected neither :BATCH nor --max-batch",
                    job.model.model);
      }
      EBB_ASSIGN_OR_RETURN(const auto graph, LoadModel(job.model, context_));
      return *graph;
    }
    const std::pair key(job.model.model, job.model.graph.get());
    auto found = any_.find(key);
    if (found == any_.end()) {
      EBB_ASSIGN_OR_RETURN(auto any, AnyBatchModel::Open(job.model, context_));
      found = any_.emplace(key, std::move(any)).first;
    }
    return found->second.At(batch);
  }

  const ShareRequest& request_;
  const JobContext& context_;
  std::map<std::tuple<std::string, const TrainingGraph*, std::int64_t, std::int64_t, int>,
           std::shared_ptr<const share::Training>>
      made_;
  std::map<std::pair<std::string, const TrainingGraph*>, AnyBatchModel> any_;
};

share::MixOptions OptionsOf(const ShareRequest& request, const JobContext& context) {
  share::MixOptions options = share::OptionsFor(request.gpu);
  options.link = request.link.value_or(options.link);
  options.together.link = options.link;
  options.capacity = request.capacity.value_or(options.capacity);
  options.cut.groups = request.groups;
  options.may_plan = request.may_plan;
  options.threads = context.threads;
  options.stop = context.stop;
  return options;
}

// What is being tried, in a phase whose length nobody knows.
std::function<void(const std::string&)> NotesOf(const JobContext& context, std::string phase) {
  return
      [&context, phase = std::move(phase)](const std::string& what) { context.Tell({.phase = phase, .note = what}); };
}

}  // namespace

Result<ShareResult> Share(const ShareRequest& request, const JobContext& context) {
  Trainings trainings(request, context);
  share::MixOptions options = OptionsOf(request, context);
  ShareResult result{.gpu = request.gpu.name, .mix = {}, .common = {}, .compared = {}};
  std::vector<std::int64_t> batches;
  for (const ShareJobRequest& job : request.jobs) batches.push_back(job.model.options.batch_size);
  if (request.max_batch) {
    std::vector<std::string> names;
    for (const ShareJobRequest& job : request.jobs) names.push_back(job.model.model);
    share::CommonBatchOptions search;
    search.mix = options;
    search.mix.progress = NotesOf(context, "largest common batch");
    const share::TrainingAt at = [&](std::size_t job, std::int64_t batch) { return trainings.At(job, batch); };
    EBB_ASSIGN_OR_RETURN(result.common, share::FindCommonBatch(names, at, search));
    if (result.common->found()) batches = result.common->batches;
    result.mix = std::move(result.common->mix);
  }
  const bool searched_in_vain = request.max_batch && !result.mix.fits;
  std::vector<std::shared_ptr<const share::Training>> at_batches;
  context.Tell({.phase = "lanes", .note = {}});
  for (std::size_t i = 0; i < request.jobs.size(); ++i) {
    EBB_RETURN_IF_ERROR(context.CheckStop());
    EBB_ASSIGN_OR_RETURN(auto training, trainings.At(i, searched_in_vain ? 1 : batches[i]));
    at_batches.push_back(std::move(training));
  }
  if (!request.max_batch || searched_in_vain) {
    options.progress = NotesOf(context, "lanes");
    EBB_ASSIGN_OR_RETURN(result.mix, share::ArrangeMix(at_batches, options));
  }
  if (request.compare) {
    options.together.stop = context.stop;
    const share::BaselineInput input = share::MakeBaselineInput(at_batches, options);
    for (const share::Baseline& baseline : share::Baselines()) {
      context.Tell({.phase = std::string(baseline.name), .note = {}});
      result.compared.push_back(baseline.run(input));
      EBB_RETURN_IF_ERROR(context.CheckStop());
    }
  }
  return result;
}

}  // namespace ebbtide::jobs
