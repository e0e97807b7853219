// ebbtide estimate MODEL: how much GPU memory a training will take, before it runs.
#include "estimate/estimate.h"

#include <fmt/format.h>

#include <memory>

#include "cli/load.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "report/estimate.h"

namespace ebbtide::cli {
namespace {

struct EstimateFlags {
  ModelFlags model;
  OutputFlags output;
  std::string gpu = "a100-40gb";
  std::string alloc_conf;
};

Result<int> RunEstimate(EstimateFlags& flags) {
  if (flags.model.model.empty()) return Fail("expected a MODEL (see ebbtide models)");
  EBB_RETURN_IF_ERROR(CheckOutput(flags.output));
  estimate::Options options;
  EBB_ASSIGN_OR_RETURN(options.gpu, FindProfile(flags.gpu));
  EBB_ASSIGN_OR_RETURN(options.allocator, alloc::ChooseAllocator("pytorch", flags.alloc_conf));
  flags.model.options.device = model::Device::kCuda;
  EBB_ASSIGN_OR_RETURN(const TrainingGraph graph, Load(flags.model, flags.output));
  const report::Prediction prediction{.model = flags.model.model,
                                      .graph = &graph,
                                      .gpu = &options.gpu,
                                      .estimate = estimate::EstimateTraining(graph, options)};
  EBB_RETURN_IF_ERROR(Emit(flags.output, report::EstimateJson(prediction), [&](const report::Terminal& terminal) {
    return report::EstimateText(prediction, terminal);
  }));
  return prediction.estimate.fits ? kSuccess : kInfeasible;
}

}  // namespace

Verb AddEstimate(CLI::App& program) {
  CLI::App* app = program.add_subcommand("estimate", "Tell the GPU memory of a training before it runs");
  const auto flags = std::make_shared<EstimateFlags>();
  AddModelFlags(*app, flags->model);
  AddOutputFlags(*app, flags->output);
  app->add_option("--gpu", flags->gpu, "A name that `ebbtide gpus` lists, or a profile of your own (default a100-40gb)")
      ->type_name("NAME|FILE");
  app->add_option("--alloc-conf", flags->alloc_conf, "How PyTorch's allocator is set up, as in PYTORCH_CUDA_ALLOC_CONF")
      ->type_name("STRING");
  return {app, [flags] { return RunEstimate(*flags); }};
}

}  // namespace ebbtide::cli
