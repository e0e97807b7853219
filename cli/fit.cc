// ebbtide fit MODEL: the largest batch on each GPU, and the smallest GPU for a batch.
#include "jobs/fit.h"

#include <memory>

#include "cli/command_context.h"
#include "cli/layout_flags.h"
#include "cli/output.h"
#include "cli/training_flags.h"
#include "cli/verb.h"
#include "report/json/fit.h"
#include "report/text/fit.h"

namespace ebbtide::cli {
namespace {

struct FitFlags {
  ModelFlags model;
  TrainingFlags training;
  OutputFlags output;
  std::vector<std::string> gpus;
  bool with_plan = false;
  std::optional<double> slowdown;
  std::optional<std::string> policy;
};

Result<int> RunFit(const FitFlags& flags) {
  const jobs::FitRequest request{.model = RequestOf(flags.model, flags.training.other_batches),
                                 .training = flags.training.request,
                                 .gpus = flags.gpus,
                                 .with_plan = flags.with_plan,
                                 .slowdown = flags.slowdown,
                                 .policy = flags.policy};
  EBB_RETURN_IF_ERROR(jobs::CheckNamed(request.model));
  EBB_RETURN_IF_ERROR(CheckOutput(flags.output));
  EBB_ASSIGN_OR_RETURN(const jobs::FitResult result, jobs::Fit(request, CommandContext(flags.output).job()));
  EBB_RETURN_IF_ERROR(Emit(flags.output, report::FitJson(result),
                           [&](const report::Terminal& terminal) { return report::FitText(result, terminal); }));
  return result.found() ? kSuccess : kInfeasible;
}

}  // namespace

Verb AddFit(CLI::App& program) {
  CLI::App* app = program.add_subcommand("fit", "Tell the largest batch of a training on each GPU");
  const auto flags = std::make_shared<FitFlags>();
  AddCudaModelFlags(*app, flags->model);
  AddLayoutFlags(*app, flags->model.layout);
  app->add_option("--gpu", flags->gpus, "May be given several times (default: all that `ebbtide gpus` lists)")
      ->type_name("NAME|FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_flag("--with-plan", flags->with_plan, "Also the largest batch that a plan (see ebbtide plan) makes fit");
  app->add_option("--slowdown", flags->slowdown, "How many times as long an iteration may take with a plan (default 2)")
      ->type_name("X");
  app->add_option("--policy", flags->policy, "Who makes the plan (default home)")->type_name("NAME");
  AddTrainingFlags(*app, flags->training);
  AddOutputFlags(*app, flags->output);
  return {app, [flags] { return RunFit(*flags); }};
}

}  // namespace ebbtide::cli
