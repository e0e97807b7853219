// ebbtide fit MODEL: the largest batch on each GPU, and the smallest GPU for a batch.
#include "report/fit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/parallel.h"
#include "cli/batch_search.h"
#include "cli/fit_plan.h"
#include "cli/output.h"
#include "cli/training_flags.h"
#include "cli/verb.h"

namespace ebbtide::cli {
namespace {

struct FitFlags {
  ModelFlags model;
  TrainingFlags training;
  OutputFlags output;
  std::vector<std::string> gpus;
  const CLI::Option* batch = nullptr;
  bool with_plan = false;
  double slowdown = 2;
  std::string policy = "home";
  std::vector<const CLI::Option*> of_plans;  // of no use without --with-plan
};

constexpr double kMostSlowdown = 1e6;

// Nothing where no plans are asked for.
Result<std::optional<FitPlanOptions>> PlanOptionsOf(const FitFlags& flags, std::size_t gpus) {
  if (!flags.with_plan) {
    for (const CLI::Option* flag : flags.of_plans) {
      if (flag->count() > 0) return Fail("{}: of no use without --with-plan", flag->get_name());
    }
    return std::nullopt;
  }
  if (!(flags.slowdown >= 1 && flags.slowdown <= kMostSlowdown)) {
    return Fail("--slowdown: expected a number from 1 to {}, found {}", kMostSlowdown, flags.slowdown);
  }
  FitPlanOptions options;
  EBB_ASSIGN_OR_RETURN(options.policy, plan::FindPolicy(flags.policy));
  options.slowdown = flags.slowdown;
  options.seed = flags.output.seed;
  // Several GPUs are searched at a time, a single one's searches are on several threads.
  options.threads = gpus > 1 ? 1 : ThreadsOf(flags.output);
  options.shows_progress = !flags.output.quiet && report::DescribeTerminal(STDERR_FILENO).interactive;
  return options;
}

Result<std::vector<DeviceProfile>> ProfilesOf(const FitFlags& flags) {
  std::vector<DeviceProfile> profiles;
  if (flags.gpus.empty()) profiles = BuiltInProfiles();
  for (const std::string& name : flags.gpus) {
    EBB_ASSIGN_OR_RETURN(DeviceProfile profile, FindProfile(name));
    profiles.push_back(std::move(profile));
  }
  std::stable_sort(profiles.begin(), profiles.end(), [](const auto& a, const auto& b) { return a.memory < b.memory; });
  return profiles;
}

Result<report::FitOnGpu> FitOn(const AnyBatchModel& model, estimate::Options options, const DeviceProfile& gpu,
                               const TrainingGraph* asked, const std::optional<FitPlanOptions>& plans) {
  options.gpu = gpu;
  report::FitOnGpu fit{.gpu = gpu.name, .memory = gpu.memory, .with_plan = {}};
  if (asked != nullptr) fit.fits_batch = estimate::EstimateTraining(*asked, options).fits;
  EBB_ASSIGN_OR_RETURN(fit.max_batch, FindLargestBatch(model, options));
  if (plans) {
    EBB_ASSIGN_OR_RETURN(fit.with_plan, FitWithPlan(model, gpu, *plans));
  }
  return fit;
}

// GPUs are independent of each other, so the result does not depend on the number of threads.
std::vector<Result<report::FitOnGpu>> FitAll(const FitFlags& flags, const AnyBatchModel& model,
                                             const estimate::Options& options, const std::vector<DeviceProfile>& gpus,
                                             const TrainingGraph* asked, const std::optional<FitPlanOptions>& plans) {
  std::vector<Result<report::FitOnGpu>> fits(gpus.size());
  ForEachIndex(gpus.size(), ThreadsOf(flags.output),
               [&](std::size_t i) { fits[i] = FitOn(model, options, gpus[i], asked, plans); });
  return fits;
}

Result<int> RunFit(FitFlags flags) {
  if (flags.model.model.empty()) return Fail("expected a MODEL (see ebbtide models)");
  EBB_RETURN_IF_ERROR(ChooseFramework(flags.training, flags.model));
  EBB_RETURN_IF_ERROR(CheckOutput(flags.output));
  EBB_ASSIGN_OR_RETURN(const estimate::Options options, OptionsOf(flags.training));
  EBB_ASSIGN_OR_RETURN(const std::vector<DeviceProfile> gpus, ProfilesOf(flags));
  EBB_ASSIGN_OR_RETURN(const std::optional<FitPlanOptions> plans, PlanOptionsOf(flags, gpus.size()));
  EBB_ASSIGN_OR_RETURN(const AnyBatchModel model,
                       AnyBatchModel::Open(flags.model, flags.training.other_batches, flags.output));
  const bool has_batch = flags.batch->count() > 0;
  std::optional<TrainingGraph> asked;
  if (has_batch) {
    EBB_ASSIGN_OR_RETURN(asked, model.At(flags.model.options.batch_size));
  }
  report::Fit fit{.model = flags.model.model, .batch = {}, .terms = {}, .gpus = {}};
  if (plans) {
    fit.terms = {.policy = std::string(plans->policy->name), .slowdown = plans->slowdown, .passes = model.passes()};
  }
  if (has_batch) fit.batch = flags.model.options.batch_size;
  for (Result<report::FitOnGpu>& on_gpu : FitAll(flags, model, options, gpus, asked ? &*asked : nullptr, plans)) {
    if (!on_gpu) return tl::unexpected<Error>(on_gpu.error());
    fit.gpus.push_back(*std::move(on_gpu));
  }
  EBB_RETURN_IF_ERROR(Emit(flags.output, report::FitJson(fit),
                           [&](const report::Terminal& terminal) { return report::FitText(fit, terminal); }));
  const bool found = has_batch ? fit.smallest() != nullptr : std::any_of(fit.gpus.begin(), fit.gpus.end(), [](auto& g) {
    return g.max_batch > 0 || (g.with_plan && g.with_plan->max_batch > 0);
  });
  return found ? kSuccess : kInfeasible;
}

}  // namespace

Verb AddFit(CLI::App& program) {
  CLI::App* app = program.add_subcommand("fit", "Tell the largest batch of a training on each GPU");
  const auto flags = std::make_shared<FitFlags>();
  AddCudaModelFlags(*app, flags->model);
  flags->batch = app->get_option("--batch-size");
  app->add_option("--gpu", flags->gpus, "May be given several times (default: all that `ebbtide gpus` lists)")
      ->type_name("NAME|FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_flag("--with-plan", flags->with_plan, "Also the largest batch that a plan (see ebbtide plan) makes fit");
  flags->of_plans = {
      app->add_option("--slowdown", flags->slowdown,
                      "How many times as long an iteration may take with a plan (default 2)")
          ->type_name("X"),
      app->add_option("--policy", flags->policy, "Who makes the plan (default home)")->type_name("NAME")};
  AddTrainingFlags(*app, flags->training);
  AddOutputFlags(*app, flags->output);
  return {app, [flags] { return RunFit(*flags); }};
}

}  // namespace ebbtide::cli
