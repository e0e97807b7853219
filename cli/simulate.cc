// ebbtide simulate MODEL --plan FILE: replays a plan, after checking it op by op.
#include <memory>

#include "base/file.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/plan_flags.h"
#include "cli/training_flags.h"
#include "cli/verb.h"
#include "report/plan.h"

namespace ebbtide::cli {
namespace {

constexpr Bytes kLargestPlan = 2 * kGiB;

struct Flags {
  ModelFlags model;
  PlanFlags plan;
  OutputFlags output;
  std::string file;
  const CLI::Option* gpu = nullptr;
};

Result<int> RunSimulate(const Flags& flags) {
  if (flags.model.model.empty()) return Fail("expected a MODEL (see ebbtide models)");
  if (flags.file.empty()) return Fail("expected --plan FILE");
  EBB_RETURN_IF_ERROR(CheckOutput(flags.output));
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.file, kLargestPlan));
  EBB_ASSIGN_OR_RETURN(const plan::Plan plan, plan::ParsePlan(text, flags.file));
  EBB_ASSIGN_OR_RETURN(TrainingGraph graph, Load(flags.model, flags.output));
  PlanFlags asked = flags.plan;
  if (flags.gpu->count() == 0 && !plan.gpu.empty()) asked.gpu = plan.gpu;
  EBB_ASSIGN_OR_RETURN(const auto task, MakeTask(asked, std::move(graph)));
  const Status valid = plan::CheckPlan(plan, task->graph);
  if (!valid) return Fail("{}: {}", flags.file, valid.error().message);
  report::SimulateResult result{.model = flags.model.model, .plan = flags.file, .details = &plan, .outcome = {}, .peak = 0};
  const sim::Link link = asked.link.empty() ? plan.link : task->link;
  // Sizes are rounded as they were for the plan.
  const sim::Workload workload = sim::MakeWorkload(task->graph, task->workload.time, {.alignment = plan.alignment});
  result.outcome = sim::Simulate(workload, plan.schedule, link);
  result.peak = sim::Height(workload, plan.schedule);
  EBB_RETURN_IF_ERROR(Emit(flags.output, report::SimulateJson(result), [&](const report::Terminal&) { return report::SimulateText(result); }));
  return kSuccess;
}

}  // namespace

Verb AddSimulate(CLI::App& program) {
  CLI::App* app = program.add_subcommand("simulate", "Check a plan and run it in the simulator");
  const auto flags = std::make_shared<Flags>();
  AddCudaModelFlags(*app, flags->model);
  app->add_option("--plan", flags->file, "What `ebbtide plan -o` wrote")->type_name("FILE");
  AddGpuFlags(*app, flags->plan);
  flags->gpu = app->get_option("--gpu");
  AddOutputFlags(*app, flags->output);
  return {app, [flags] { return RunSimulate(*flags); }};
}

}  // namespace ebbtide::cli
