// ebbtide estimate MODEL: how much GPU memory a training will take, before it runs.
#include "estimate/estimate.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/file.h"
#include "cli/batch_search.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/training_flags.h"
#include "cli/verb.h"
#include "estimate/safety.h"
#include "report/estimate.h"
#include "report/memory_page.h"

namespace ebbtide::cli {
namespace {

struct EstimateFlags {
  ModelFlags model;
  TrainingFlags training;
  OutputFlags output;
  std::string gpu = "a100-40gb";
  std::vector<std::string> files;
  const CLI::Option* batch = nullptr;
};

Status CheckFiles(const EstimateFlags& flags, const alloc::AllocatorChoice& allocator) {
  for (const std::string& file : flags.files) {
    const auto ends = [&](const char* suffix) { return file.ends_with(suffix); };
    if (!ends(".html") && !ends(".json") && !ends(".txt") && !ends(".pickle")) {
      return Fail("-o {}: expected a name that ends in .html, .json, .txt or .pickle", file);
    }
    if (ends(".pickle") && !allocator.name.starts_with("pytorch")) {
      return Fail("-o {}: expected an allocator that has segments; {} has none", file, allocator.name);
    }
  }
  return {};
}

Status WriteFiles(const EstimateFlags& flags, const report::Prediction& prediction,
                  const alloc::AllocatorChoice& allocator) {
  for (const std::string& file : flags.files) {
    std::string content;
    if (file.ends_with(".html")) {
      content = report::MemoryPage(report::EstimateTimeline(prediction));
    } else if (file.ends_with(".pickle")) {
      content = report::EstimateSnapshot(prediction, allocator);
    } else if (file.ends_with(".json")) {
      content = report::Print(report::EstimateJson(prediction));
    } else {
      content = report::EstimateText(prediction, kTextFile);
    }
    EBB_RETURN_IF_ERROR(WriteFile(file, content));
    Remark(flags.output, fmt::format("wrote {}", file));
  }
  return {};
}

std::vector<std::string> NotesOn(const TrainingGraph& graph) {
  const auto device = graph.meta.find("device");
  if (device == graph.meta.end() || device->second.starts_with("cuda")) return {};
  return {fmt::format("the graph has the kernels of {}; those of CUDA may save and need other things", device->second)};
}

Result<TrainingGraph> LoadAtBatch(const EstimateFlags& flags) {
  if (flags.training.other_batches.empty()) return Load(flags.model, flags.output);
  EBB_ASSIGN_OR_RETURN(const AnyBatchModel model,
                       AnyBatchModel::Open(flags.model, flags.training.other_batches, flags.output));
  const bool has_batch = flags.batch->count() > 0;
  return model.At(has_batch ? flags.model.options.batch_size : *model.captured_batch());
}

// A model that cannot be made for other batches (an .onnx with a fixed one) has no largest.
std::optional<std::int64_t> LargestBatchOf(const EstimateFlags& flags, const estimate::Options& options) {
  if (!HasFreeBatch(flags.model, flags.training.other_batches)) return std::nullopt;
  const auto model = AnyBatchModel::Open(flags.model, flags.training.other_batches, flags.output);
  if (!model) return std::nullopt;
  const auto batch = FindLargestBatch(*model, options);
  return batch ? std::optional(*batch) : std::nullopt;
}

Result<int> RunEstimate(EstimateFlags flags) {
  if (flags.model.model.empty()) return Fail("expected a MODEL (see ebbtide models)");
  EBB_RETURN_IF_ERROR(ChooseFramework(flags.training, flags.model));
  EBB_ASSIGN_OR_RETURN(estimate::Options options, OptionsOf(flags.training));
  EBB_RETURN_IF_ERROR(CheckFiles(flags, options.allocator));
  EBB_ASSIGN_OR_RETURN(options.gpu, FindProfile(flags.gpu));
  options.keep_timeline = true;
  EBB_ASSIGN_OR_RETURN(const TrainingGraph graph, LoadAtBatch(flags));
  report::Prediction prediction{.model = flags.model.model,
                                .graph = &graph,
                                .gpu = &options.gpu,
                                .training = options.training,
                                .estimate = estimate::EstimateTraining(graph, options),
                                .safe = {},
                                .largest_batch = {},
                                .notes = NotesOn(graph)};
  prediction.safe = estimate::SafeTotal(prediction.estimate, graph);
  if (!prediction.estimate.fits) prediction.largest_batch = LargestBatchOf(flags, options);
  EBB_RETURN_IF_ERROR(WriteFiles(flags, prediction, options.allocator));
  EBB_RETURN_IF_ERROR(Emit(flags.output, report::EstimateJson(prediction), [&](const report::Terminal& terminal) {
    return report::EstimateText(prediction, terminal);
  }));
  return prediction.estimate.fits ? kSuccess : kInfeasible;
}

}  // namespace

Verb AddEstimate(CLI::App& program) {
  CLI::App* app = program.add_subcommand("estimate", "Tell the GPU memory of a training before it runs");
  const auto flags = std::make_shared<EstimateFlags>();
  AddCudaModelFlags(*app, flags->model);
  flags->batch = app->get_option("--batch-size");
  app->add_option("--gpu", flags->gpu, "A name that `ebbtide gpus` lists, or a profile of your own (default a100-40gb)")
      ->type_name("NAME|FILE");
  AddTrainingFlags(*app, flags->training);
  AddOutputFlags(*app, flags->output, nullptr);
  AddFilesFlag(*app, flags->files, ".html the page, .json, .txt, .pickle a memory snapshot as torch's");
  return {app, [flags] { return RunEstimate(*flags); }};
}

}  // namespace ebbtide::cli
