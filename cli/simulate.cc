// ebbtide simulate MODEL --plan FILE: replays a plan, after checking it op by op.
#include <fmt/format.h>

#include <memory>

#include "base/file.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/plan_flags.h"
#include "cli/training_flags.h"
#include "cli/verb.h"
#include "report/plan.h"
#include "report/plan_page.h"
#include "report/plan_trace.h"

namespace ebbtide::cli {
namespace {

constexpr Bytes kLargestPlan = 2 * kGiB;

struct Flags {
  ModelFlags model;
  PlanFlags plan;
  OutputFlags output;
  std::string file;
  std::vector<std::string> files;
  const CLI::Option* gpu = nullptr;
};

Status WriteFiles(const Flags& flags, const report::PlanResult& replayed) {
  for (const std::string& file : flags.files) {
    std::string content;
    if (file.ends_with(".html")) {
      content = report::PlanPage(replayed);
    } else if (file.ends_with(".trace.json")) {
      content = report::PlanTrace(*replayed.graph, *replayed.workload, replayed.planned.plan->schedule,
                                  replayed.planned.outcome);
    } else if (file.ends_with(".json")) {
      content = report::Print(report::SimulateJson(flags.file, replayed));
    } else {
      content = report::SimulateText(replayed, kTextFile);
    }
    EBB_RETURN_IF_ERROR(WriteFile(file, content));
    Remark(flags.output, fmt::format("wrote {}", file));
  }
  return {};
}

Status CheckFlags(const Flags& flags) {
  if (flags.model.model.empty()) return Fail("expected a MODEL (see ebbtide models)");
  if (flags.file.empty()) return Fail("expected --plan FILE");
  for (const std::string& file : flags.files) {
    EBB_RETURN_IF_ERROR(CheckFile(file, {".json", ".trace.json", ".html", ".txt"}));
  }
  return CheckPlanFlags(flags.plan);
}

Result<int> RunSimulate(const Flags& flags) {
  EBB_RETURN_IF_ERROR(CheckFlags(flags));
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.file, kLargestPlan));
  EBB_ASSIGN_OR_RETURN(plan::Plan plan, plan::ParsePlan(text, flags.file));
  EBB_ASSIGN_OR_RETURN(TrainingGraph graph, Load(flags.model, flags.output));
  PlanFlags asked = flags.plan;
  if (flags.gpu->count() == 0 && !plan.gpu.empty()) asked.gpu = plan.gpu;
  EBB_ASSIGN_OR_RETURN(const auto task, MakeTask(asked, std::move(graph)));
  const Status valid = plan::CheckPlan(plan, task->graph);
  if (!valid) return Fail("{}: {}", flags.file, valid.error().message);
  if (!asked.link.empty()) plan.link = task->link;
  // Sizes are rounded as they were for the plan.
  const sim::Workload workload = sim::MakeWorkload(task->graph, task->workload.time, {.alignment = plan.alignment});
  report::PlanResult replayed{.model = flags.model.model,
                              .policy = plan.policy,
                              .gpu = task->gpu.name,
                              .budget = plan.budget,
                              .graph = &task->graph,
                              .workload = &workload,
                              .planned = {},
                              .minimum = {},
                              .plain_time = sim::PlainTime(workload),
                              .plain_peak = sim::PlainPeak(workload),
                              .lower_bound = 0,
                              .compared = {},
                              .pareto = {}};
  replayed.planned.outcome = sim::Simulate(workload, plan.schedule, plan.link, {.keep_timeline = true});
  plan.time = replayed.planned.outcome.time;
  plan.peak = sim::Height(workload, plan.schedule);
  replayed.planned.plan = std::move(plan);
  EBB_RETURN_IF_ERROR(WriteFiles(flags, replayed));
  EBB_RETURN_IF_ERROR(Emit(flags.output, report::SimulateJson(flags.file, replayed),
                           [&](const report::Terminal& terminal) { return report::SimulateText(replayed, terminal); }));
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
  AddOutputFlags(*app, flags->output, nullptr);
  AddFilesFlag(*app, flags->files,
               ".json the object, .html a page with the timeline, .trace.json the timeline for Perfetto, .txt");
  return {app, [flags] { return RunSimulate(*flags); }};
}

}  // namespace ebbtide::cli
