// How much GPU memory a training takes, and the largest batch where that is too much.
#include "jobs/estimate.h"

#include <algorithm>

#include "estimate/not_counted.h"
#include "jobs/largest_batch.h"
#include "jobs/peak.h"
#include "model/hf/hf.h"
#include "parallel/passes.h"

namespace ebbtide::jobs {
namespace {

constexpr std::size_t kTensorsListed = 10;

std::vector<std::string> NotesOn(const TrainingGraph& graph, const parallel::Layout& layout) {
  std::vector<std::string> notes;
  const auto device = graph.meta.find("device");
  if (device != graph.meta.end() && !device->second.starts_with("cuda")) {
    notes.push_back(
        fmt::format("the graph has the kernels of {}; those of CUDA may save and need other things", device->second));
  }
  if (const auto assumed = graph.meta.find("assumed"); assumed != graph.meta.end()) {
    notes.push_back("assumed: " + assumed->second);
  }
  if (layout.pp > 1 && layout.data == parallel::DataParallel::kFsdp2) {
    notes.emplace_back(
        "assumed: stages keep their parameters gathered (reshard_after_forward=False), as in torchtitan");
  }
  const bool is_fsdp = layout.data == parallel::DataParallel::kFsdp1 || layout.data == parallel::DataParallel::kFsdp2;
  if (is_fsdp && layout.pp == 1 && !layout.reduces_each_batch && parallel::PassesOf(graph).size() > 1) {
    notes.emplace_back(
        "assumed: gradients of all batches add up whole, the last batch's backward reduces them, as accelerate has it "
        "(--reduce-each-batch: as Lightning and torchtitan have it)");
  }
  return notes;
}

// A graph that has captures at other batches beside it can be estimated at any.
Result<std::shared_ptr<const TrainingGraph>> LoadAtBatch(const ModelRequest& request, const JobContext& context) {
  if (!request.HasOthers()) return LoadModel(request, context);
  EBB_ASSIGN_OR_RETURN(const AnyBatchModel model, AnyBatchModel::Open(request, context));
  EBB_ASSIGN_OR_RETURN(TrainingGraph graph,
                       model.At(request.Gave("--batch-size") ? request.options.batch_size : *model.captured_batch()));
  return std::make_shared<const TrainingGraph>(std::move(graph));
}

// A model that cannot be made for other batches (an .onnx with a fixed one) has no largest; only a search that was
// stopped fails.
Result<std::optional<LargestBatches>> LargestBatchesOf(const ModelRequest& request, const EstimateResult& asked,
                                                       const JobContext& context) {
  if (!AnyBatchModel::IsPossible(request)) return std::nullopt;
  const auto model = AnyBatchModel::Open(request, context);
  EBB_RETURN_IF_ERROR(context.CheckStop());
  if (!model) return std::nullopt;
  context.Tell({.phase = "largest batch", .share = 0, .note = {}});
  TriedBatch known;
  if (model->stages() == 1 && !model->captured_batch() && request.Gave("--batch-size")) {
    known = {request.options.batch_size, asked.estimate.fits, asked.estimate.total(), asked.safe.bytes};
  }
  const auto largest = FindLargestBatches(*model, asked.options, context, known);
  if (!largest && largest.error().kind == ErrorKind::kStopped) return tl::unexpected<Error>(largest.error());
  return largest ? std::optional(*largest) : std::nullopt;
}

Result<std::optional<estimate::Estimate>> WorstRouting(ModelRequest request, estimate::Options options,
                                                       const JobContext& context) {
  if (SourceOf(request) != model::ModelSource::kHuggingFace) return std::nullopt;
  if (!model::hf::HasExperts(model::hf::ConfigPath(request.model))) return std::nullopt;
  request.options.routing = model::RoutingCase::kWorst;
  options.keep_timeline = false;
  EBB_ASSIGN_OR_RETURN(const std::shared_ptr<const TrainingGraph> graph, LoadModel(request, context));
  return estimate::EstimateTraining(*graph, options);
}

// What follows from the estimate alone.
void Describe(EstimateResult& out) {
  out.safe = estimate::SafeTotal(out.estimate, *out.graph);
  out.breakdown = BreakdownOf(out.estimate);
  out.largest_first = LargestFirst(out.breakdown);
  out.largest_at_peak = TensorsAtPeak(out.estimate, *out.graph, kTensorsListed);
  out.reserved_before_training = ReservedBeforeTraining(out.estimate.timeline);
  out.lacks = out.estimate.fits ? 0 : LackOf(out.estimate);
  out.not_counted = estimate::NotCounted(*out.graph);
  out.notes = NotesOn(*out.graph, out.layout);
}

// Ranks of one stage of a pipeline are alike, and lie side by side.
Status EstimateRanks(const ModelRequest& request, const JobContext& context, EstimateResult& out) {
  if (out.layout.IsPlain()) return {};
  if (out.layout.pp > 1) {
    EBB_ASSIGN_OR_RETURN(const auto graphs, LoadStages(request, context));
    for (const auto& graph : graphs) {
      EBB_RETURN_IF_ERROR(context.CheckStop());
      EstimateResult stage;
      stage.model = out.model;
      stage.framework = out.framework;
      stage.options = out.options;
      stage.layout = out.layout;
      stage.graph = graph;
      stage.estimate = estimate::EstimateTraining(*graph, out.options);
      Describe(stage);
      out.stages.push_back(std::move(stage));
    }
    const EstimateResult& worst =
        *std::ranges::max_element(out.stages, {}, [](const EstimateResult& stage) { return stage.estimate.total(); });
    out.graph = worst.graph;
    out.estimate = worst.estimate;
  }
  const std::int64_t of_stage = out.layout.gpus / out.layout.pp;
  for (std::int64_t rank = 0; rank < out.layout.gpus; ++rank) {
    const std::int64_t stage = rank / of_stage;
    const estimate::Estimate& estimate =
        out.stages.empty() ? out.estimate : out.stages[static_cast<std::size_t>(stage)].estimate;
    out.ranks.push_back({stage, estimate.peak_reserved, estimate.peak_allocated, estimate.total()});
  }
  return {};
}

}  // namespace

Result<EstimateResult> Estimate(const EstimateRequest& request, const JobContext& context) {
  EBB_ASSIGN_OR_RETURN(const Training training, ParseTraining(request.training, request.model));
  ModelRequest model = request.model;
  model.options.framework = training.framework;
  EstimateResult out;
  out.model = model.model;
  out.framework = training.version;
  out.options = training.options;
  out.options.keep_timeline = true;
  if (request.profile) {
    out.options.gpu = *request.profile;
  } else {
    EBB_ASSIGN_OR_RETURN(out.options.gpu, FindProfile(request.gpu));
  }
  EBB_ASSIGN_OR_RETURN(out.graph, LoadAtBatch(model, context));
  EBB_RETURN_IF_ERROR(context.CheckStop());
  out.estimate = estimate::EstimateTraining(*out.graph, out.options);
  out.layout = model.layout;
  EBB_RETURN_IF_ERROR(EstimateRanks(model, context, out));
  Describe(out);
  EBB_ASSIGN_OR_RETURN(out.worst_routing, WorstRouting(model, out.options, context));
  if (!out.estimate.fits) {
    EBB_ASSIGN_OR_RETURN(const std::optional<LargestBatches> largest, LargestBatchesOf(model, out, context));
    if (largest) {
      out.largest_batch = largest->fits;
      out.largest_safe_batch = largest->safe;
    }
  }
  return out;
}

}  // namespace ebbtide::jobs
