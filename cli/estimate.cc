// ebbtide estimate MODEL: how much GPU memory a training will take, before it runs.
#include "jobs/estimate.h"

#include <fmt/format.h>

#include <memory>

#include "base/file.h"
#include "cli/command_context.h"
#include "cli/layout_flags.h"
#include "cli/output.h"
#include "cli/training_flags.h"
#include "cli/verb.h"
#include "report/json/estimate.h"
#include "report/page/choice_page.h"
#include "report/snapshot/estimate_snapshot.h"
#include "report/text/estimate.h"
#include "report/text/scheduler.h"

namespace ebbtide::cli {
namespace {

struct EstimateFlags {
  ModelFlags model;
  TrainingFlags training;
  OutputFlags output;
  std::string gpu = "a100-40gb";
  std::string emit;  // a scheduler, whose lines are printed in place of the table
  std::vector<std::string> files;
};

// A snapshot is of segments, which only PyTorch's allocator has.
Status CheckSnapshots(const std::vector<std::string>& files, const alloc::AllocatorChoice& allocator) {
  for (const std::string& file : files) {
    if (file.ends_with(".pickle") && !allocator.model.name.starts_with("pytorch")) {
      return Fail("-o {}: expected an allocator that has segments; {} has none", file, allocator.model.name);
    }
  }
  return {};
}

std::vector<Face> FacesOf(const jobs::EstimateResult& result) {
  return {{".html", [&] { return report::EstimatePage(result); }},
          {".pickle", [&] { return report::EstimateSnapshot(result); }},
          {".json", [&] { return report::Print(report::EstimateJson(result)); }},
          {".txt", [&] { return report::EstimateText(result, kTextFile); }}};
}

Result<int> RunEstimate(const EstimateFlags& flags) {
  const jobs::EstimateRequest request{.model = RequestOf(flags.model, flags.training.other_batches),
                                      .training = flags.training.request,
                                      .gpu = flags.gpu};
  EBB_ASSIGN_OR_RETURN(const jobs::Training training, jobs::ParseTraining(request.training, request.model));
  EBB_RETURN_IF_ERROR(CheckFiles(flags.files, {".html", ".json", ".txt", ".pickle"}));
  EBB_RETURN_IF_ERROR(CheckSnapshots(flags.files, training.options.allocator));
  if (!flags.emit.empty()) EBB_RETURN_IF_ERROR(report::CheckScheduler(flags.emit));
  EBB_ASSIGN_OR_RETURN(jobs::EstimateResult made, jobs::Estimate(request, CommandContext(flags.output).job()));
  // The program ends with its answer: the graph is not taken apart before.
  static const jobs::EstimateResult& result = *new jobs::EstimateResult(std::move(made));
  EBB_RETURN_IF_ERROR(WriteFiles(flags.output, flags.files, FacesOf(result)));
  if (!flags.emit.empty() && !flags.output.json) {
    EBB_RETURN_IF_ERROR(EmitScript(flags.output, "estimate", report::SchedulerLines(flags.emit, result)));
  } else {
    report::Json json = report::EstimateJson(result);
    if (!flags.emit.empty()) json["emit"] = report::SchedulerJson(flags.emit, result);
    EBB_RETURN_IF_ERROR(Emit(flags.output, json,
                             [&](const report::Terminal& terminal) { return report::EstimateText(result, terminal); }));
  }
  return result.estimate.fits ? kSuccess : kInfeasible;
}

}  // namespace

Verb AddEstimate(CLI::App& program) {
  CLI::App* app = program.add_subcommand("estimate", "Tell the GPU memory of a training before it runs");
  const auto flags = std::make_shared<EstimateFlags>();
  AddCudaModelFlags(*app, flags->model);
  AddLayoutFlags(*app, flags->model.layout);
  app->add_option("--gpu", flags->gpu, "A name that `ebbtide gpus` lists, or a profile of your own (default a100-40gb)")
      ->type_name("NAME|FILE");
  AddTrainingFlags(*app, flags->training);
  app->add_option("--emit", flags->emit,
                  "Print what a scheduler is to be asked for, in its words: hami, kai, mps or slurm")
      ->type_name("SCHEDULER");
  AddOutputFlags(*app, flags->output, nullptr);
  AddFilesFlag(*app, flags->files, ".html the page, .json, .txt, .pickle a memory snapshot as torch's");
  return {app, [flags] { return RunEstimate(*flags); }};
}

}  // namespace ebbtide::cli
