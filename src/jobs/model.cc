// Loads MODELs, and tells which options each kind of them takes.
#include "jobs/model.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/nearest.h"
#include "graph/json.h"
#include "graph/liveness.h"
#include "model/hf/hf.h"
#include "model/script.h"
#include "model/source.h"
#include "model/update_rules.h"
#include "parallel/rank.h"

namespace ebbtide::jobs {
namespace {

using model::ModelSource;

// Of the batches that make up an update, every later one takes what the second does; two more are for the layout.
constexpr std::int64_t kMostPasses = 4;

// ---- Which options there are, by what they choose
constexpr std::string_view kBatch = "--batch-size", kWidths = "--widths", kElementwise = "--assume-elementwise",
                           kOptimizer = "--optimizer";
constexpr std::array kShapes = {
    kBatch,     std::string_view("--image-size"), std::string_view("--seq-len"), std::string_view("--classes"), kWidths,
    kOptimizer, std::string_view("--device")};
constexpr std::array<std::string_view, 9> kStep = {"--inference",  "--autocast",     "--freeze",
                                                   "--lora",       "--lora-targets", "--lora-dropout",
                                                   "--accumulate", "--checkpoint",   "--clip"};
constexpr std::array<std::string_view, 9> kLanguage = {"--dtype",     "--quantize",     "--kbit-prepare",
                                                       "--attention", "--loss",         "--kernels",
                                                       "--packing",   "--resize-vocab", "--transformers"};
constexpr std::array<std::string_view, 3> kLora = {"--lora", "--lora-targets", "--lora-dropout"};
constexpr std::array<std::string_view, 4> kTrainingOnly = {"--freeze", "--accumulate", "--checkpoint", "--clip"};

template <class Flags>
Status Refuse(const ModelRequest& request, const Flags& flags, std::string_view why) {
  for (const std::string_view flag : flags) {
    if (request.Gave(std::string(flag))) return Fail("{}: of no use with {}, {}", flag, request.model, why);
  }
  return {};
}
Status Refuse(const ModelRequest& request, std::string_view flag, std::string_view why) {
  return Refuse(request, std::array{flag}, why);
}

Status CheckScript(const ModelRequest& request) {
  EBB_RETURN_IF_ERROR(Refuse(request, kWidths, "a function that makes its own layers"));
  EBB_RETURN_IF_ERROR(Refuse(request, kElementwise, "whose operators PyTorch knows"));
  return Refuse(request, kStep, "a function that makes its own step");
}

Status CheckFixed(const ModelRequest& request, std::string_view why, bool batch_is_free) {
  for (const std::string_view flag : kShapes) {
    if (batch_is_free && flag == kBatch) continue;
    EBB_RETURN_IF_ERROR(Refuse(request, flag, why));
  }
  return Refuse(request, kStep, why);
}

Status CheckStep(const ModelRequest& request) {
  const model::ModelOptions& options = request.options;
  if (options.inference && request.Gave(std::string(kOptimizer))) {
    return Fail("--optimizer: of no use with --inference, which updates nothing");
  }
  if (!options.lora_targets.empty() && !options.lora) {
    return Fail("--lora-targets: expected --lora, the rank of the adapters, beside it");
  }
  if (request.Gave("--lora-dropout") && !options.lora) {
    return Fail("--lora-dropout: expected --lora, the rank of the adapters, beside it");
  }
  if (options.quantize && !options.lora && !options.inference) {
    return Fail("--quantize: expected --lora beside it; weights stored so are not trained");
  }
  if (options.kbit_prepare && !options.quantize) return Fail("--kbit-prepare: expected --quantize beside it");
  if (!options.inference) return {};
  for (const std::string_view flag : kTrainingOnly) {
    if (request.Gave(std::string(flag))) {
      return Fail("{}: of no use with --inference, which trains nothing", flag);
    }
  }
  return {};
}

// A configuration of a family that only the user's own packages can build.
bool IsCapturedConfig(const ModelRequest& request) {
  if (SourceOf(request) != ModelSource::kHuggingFace) return false;
  const std::string config = model::hf::ConfigPath(request.model);
  return !config.empty() && !model::hf::IsReadHere(config);
}

bool IsFixed(const ModelRequest& request) { return model::IsFixed(SourceOf(request)); }

// The captures that tell all other batches, MODEL's own first.
Result<std::vector<TrainingGraph>> ReadCaptures(const ModelRequest& request) {
  std::vector<TrainingGraph> graphs;
  const auto read = [&](const std::string& file) -> Status {
    EBB_ASSIGN_OR_RETURN(TrainingGraph graph, ReadGraph(file));
    graphs.push_back(std::move(graph));
    return {};
  };
  if (request.graph) {
    graphs.push_back(*request.graph);
  } else {
    EBB_RETURN_IF_ERROR(read(request.model));
  }
  for (const std::string& file : request.other_batches) EBB_RETURN_IF_ERROR(read(file));
  for (const auto& graph : request.other_graphs) graphs.push_back(*graph);
  return graphs;
}

Result<Capturer*> CapturerOf(const ModelRequest& request, const JobContext& context) {
  if (context.capturer == nullptr) {
    return FailAs(ErrorKind::kCapture, "{}: a function of a script is captured first (ebbtide capture)", request.model);
  }
  return context.capturer;
}

}  // namespace

ModelSource SourceOf(const ModelRequest& request) {
  return request.graph ? ModelSource::kGraph : model::SourceOf(request.model);
}

Status CheckNamed(const ModelRequest& request) {
  if (request.model.empty() && request.graph == nullptr) return Fail("expected a MODEL (see ebbtide models)");
  if (request.graph != nullptr) return {};
  // Before any flag is said to be of no use with it: what a .json holds is told by reading it.
  std::error_code ignored;
  if (SourceOf(request) == ModelSource::kGraph && !std::filesystem::exists(request.model, ignored)) {
    return Fail("{}: no such file", request.model);
  }
  return model::CheckFunctionNamed(request.model);
}

Status CheckOptimizer(const std::string& name) {
  std::vector<std::string> names = model::OptimizerNames();
  names.push_back("none");
  if (std::ranges::find(names, model::OptimizerNamed(name)) != names.end()) return {};
  return Fail("--optimizer: expected {}; found {}{}", JoinWithOr(names), name, DidYouMean(name, names));
}

Status CheckModel(const ModelRequest& request) {
  EBB_RETURN_IF_ERROR(CheckNamed(request));
  if (SourceOf(request) != ModelSource::kHuggingFace) {
    EBB_RETURN_IF_ERROR(Refuse(request, kLanguage, "expected a Hugging Face folder or its config.json"));
  }
  switch (SourceOf(request)) {
    case ModelSource::kScript: return CheckScript(request);
    case ModelSource::kGraph:
    case ModelSource::kLayers:
      EBB_RETURN_IF_ERROR(CheckFixed(request, "a graph whose shapes and optimizer are fixed", false));
      EBB_RETURN_IF_ERROR(Refuse(request, kElementwise, "a graph whose shapes and optimizer are fixed"));
      break;
    case ModelSource::kOnnx:
    case ModelSource::kMxnet:
    case ModelSource::kTensorflow:
      EBB_RETURN_IF_ERROR(Refuse(request, kWidths, "which has its own layers"));
      EBB_RETURN_IF_ERROR(Refuse(request, kLora, "whose linear layers have no names of their own"));
      break;
    case ModelSource::kHuggingFace:
      EBB_RETURN_IF_ERROR(Refuse(request, kWidths, "which has its own layers"));
      EBB_RETURN_IF_ERROR(Refuse(request, kElementwise, "whose operators are all known"));
      if (IsCapturedConfig(request)) {
        constexpr std::string_view kWhy = "whose family is captured with your own packages";
        EBB_RETURN_IF_ERROR(Refuse(request, kLanguage, kWhy));
        return Refuse(request, kStep, kWhy);
      }
      break;
    case ModelSource::kBuiltIn:
    case ModelSource::kUnknownFile:
      EBB_RETURN_IF_ERROR(Refuse(request, kElementwise, "whose operators are all known"));
      break;
  }
  EBB_RETURN_IF_ERROR(CheckOptimizer(request.options.optimizer));
  return CheckStep(request);
}

namespace {

Status CheckRequest(const ModelRequest& request) {
  EBB_RETURN_IF_ERROR(CheckModel(request));
  return model::CheckFramework(request.model, SourceOf(request), request.options.framework);
}

// Of a MODEL that is not in memory yet.
Result<TrainingGraph> MakeGraph(const ModelRequest& request, const JobContext& context) {
  EBB_RETURN_IF_ERROR(CheckRequest(request));
  if (SourceOf(request) != ModelSource::kScript && !IsCapturedConfig(request)) {
    return model::LoadModel(request.model, request.options);
  }
  EBB_ASSIGN_OR_RETURN(Capturer* const capturer, CapturerOf(request, context));
  return capturer->Capture(request);
}

}  // namespace

namespace {

bool IsSharded(const parallel::Layout& layout) {
  return layout.data == parallel::DataParallel::kFsdp1 || layout.data == parallel::DataParallel::kFsdp2;
}

// A model of transformers is trained through accelerate. Where it shards the model and computation is in 16 bits,
// parameters are gathered in those 16 bits, whatever type they have, and shards of what is trained are float32.
ModelRequest AsTrained(ModelRequest request) {
  model::ModelOptions& options = request.options;
  parallel::Layout& layout = request.layout;
  layout.adapters_apart = options.lora.has_value();
  if (layout.cp > 1 && options.seq_len) *options.seq_len /= layout.cp;
  layout.reentrant = options.checkpoint && options.checkpoint_kind == model::CheckpointKind::kReentrant;
  if (!IsSharded(layout) || !options.autocast || SourceOf(request) != ModelSource::kHuggingFace) return request;
  layout.trained_shards = DType::kFloat32;
  layout.frozen_shards = options.dtype;
  if (options.dtype == DType::kFloat32) options.dtype = options.autocast;
  return request;
}

// A sequence that ranks share is divided before the model is made; a captured program has its rank's part already.
Status CheckSequence(const ModelRequest& request) {
  const std::int64_t parts = 2 * request.layout.cp;
  if (request.layout.cp == 1 || request.graph || IsFixed(request)) return {};
  if (SourceOf(request) == ModelSource::kScript) return {};
  if (!request.options.seq_len) return Fail("--cp: expected --seq-len beside it, the whole sequence's");
  if (*request.options.seq_len % parts != 0) {
    return Fail("--seq-len {}: expected a multiple of {}: every one of --cp {} ranks has two parts of the sequence",
                *request.options.seq_len, parts, request.layout.cp);
  }
  return {};
}

}  // namespace

Result<std::vector<std::shared_ptr<const TrainingGraph>>> LoadStages(const ModelRequest& asked,
                                                                     const JobContext& context) {
  const ModelRequest request = AsTrained(asked);
  if (request.graph && request.layout.IsPlain()) {
    EBB_RETURN_IF_ERROR(CheckRequest(request));
    return std::vector{request.graph};
  }
  EBB_RETURN_IF_ERROR(parallel::CheckLayout(request.layout));
  EBB_RETURN_IF_ERROR(CheckSequence(asked));
  TrainingGraph graph;
  if (request.graph) {
    EBB_RETURN_IF_ERROR(CheckRequest(request));
    graph = *request.graph;
  } else {
    EBB_ASSIGN_OR_RETURN(graph, MakeGraph(request, context));
  }
  std::vector<std::shared_ptr<const TrainingGraph>> stages;
  for (std::int64_t stage = 0; stage < request.layout.pp; ++stage) {
    parallel::Layout layout = request.layout;
    layout.stage = stage;
    TrainingGraph whole = stage + 1 == layout.pp ? std::move(graph) : graph;
    EBB_ASSIGN_OR_RETURN(TrainingGraph rank, parallel::RankGraph(std::move(whole), layout));
    stages.push_back(std::make_shared<const TrainingGraph>(std::move(rank)));
  }
  return stages;
}

Result<std::shared_ptr<const TrainingGraph>> LoadModel(const ModelRequest& request, const JobContext& context) {
  EBB_ASSIGN_OR_RETURN(const auto stages, LoadStages(request, context));
  return *std::ranges::max_element(stages, {}, [&](const auto& graph) {
    return stages.size() == 1 ? 0 : PeakLiveBytes(*graph, ComputeLiveness(*graph)).bytes;
  });
}

bool AnyBatchModel::IsPossible(const ModelRequest& request) { return !IsFixed(request) || request.HasOthers(); }

Result<AnyBatchModel> AnyBatchModel::Open(const ModelRequest& asked, const JobContext& context) {
  EBB_RETURN_IF_ERROR(CheckSequence(asked));
  const ModelRequest request = AsTrained(asked);
  AnyBatchModel any(request, context);
  if (request.HasOthers() && !IsFixed(request)) {
    return Fail("--other-batch: of no use with {}, which can be made for any batch", request.model);
  }
  if (!IsPossible(request)) {
    return Fail("{}: expected --other-batch FILE, a capture of the same step at another batch", request.model);
  }
  if (IsFixed(request)) {
    EBB_RETURN_IF_ERROR(CheckFixed(request, "a graph whose optimizer and shapes are fixed", true));
    EBB_ASSIGN_OR_RETURN(const std::vector<TrainingGraph> graphs, ReadCaptures(request));
    EBB_RETURN_IF_ERROR(any.Combine(graphs, request.other_batches));
  } else if (SourceOf(request) == ModelSource::kScript || IsCapturedConfig(request)) {
    EBB_RETURN_IF_ERROR(CheckModel(request));
    EBB_ASSIGN_OR_RETURN(Capturer* const capturer, CapturerOf(request, context));
    EBB_ASSIGN_OR_RETURN(const std::vector<TrainingGraph> graphs, capturer->CaptureBatches(request));
    if (const Status combined = any.Combine(graphs, {}); !combined) return Within(request.model, combined.error());
  }
  return any;
}

// `names`: of the graphs behind the first, as far as they have any that would help a reader.
Status AnyBatchModel::Combine(const std::vector<TrainingGraph>& graphs, const std::vector<std::string>& names) {
  const auto place = [&](std::size_t graph, const Error& error) {
    return graph > names.size() ? tl::unexpected<Error>(error) : Within(names[graph - 1], error);
  };
  auto made = model::AnyBatch::Make(graphs.at(0), graphs.at(1));
  if (!made) return place(1, made.error());
  for (std::size_t i = 2; i < graphs.size(); ++i) {
    if (const Status confirmed = made->Confirm(graphs[i]); !confirmed) return place(i, confirmed.error());
  }
  captured_ = *std::move(made);
  return {};
}

Result<TrainingGraph> AnyBatchModel::At(std::int64_t batch, std::int64_t stage) const {
  parallel::Layout layout = request_.layout;
  layout.stage = stage;
  if (captured_) {
    auto graph = captured_->At(batch);
    if (!graph) return Within(request_.model, graph.error());
    return parallel::RankGraph(*std::move(graph), layout);
  }
  ModelRequest of_batch = request_;
  of_batch.options.batch_size = batch;
  of_batch.options.accumulate = passes();
  EBB_ASSIGN_OR_RETURN(TrainingGraph graph, MakeGraph(of_batch, context_));
  return parallel::RankGraph(std::move(graph), layout);
}

std::int64_t AnyBatchModel::passes() const { return std::min(request_.options.accumulate, kMostPasses); }

std::optional<std::int64_t> AnyBatchModel::captured_batch() const {
  if (!captured_) return std::nullopt;
  return captured_->first_batch();
}

}  // namespace ebbtide::jobs
