// ebbtide plan MODEL: which storages to keep, swap or recompute, so that a training fits a budget.
#include "jobs/plan.h"

#include <fmt/format.h>

#include <memory>

#include "base/file.h"
#include "cli/command_context.h"
#include "cli/layout_flags.h"
#include "cli/output.h"
#include "cli/plan_flags.h"
#include "cli/training_flags.h"
#include "cli/verb.h"
#include "report/json/plan.h"
#include "report/json/plan_trace.h"
#include "report/page/plan_page.h"
#include "report/text/plan.h"

namespace ebbtide::cli {
namespace {

struct Flags {
  ModelFlags model;
  PlanFlags plan;
  OutputFlags output;
  std::string policy = "home";
  std::vector<std::string> files;
  std::int64_t evaluations = 0;
  double time_limit = 0;
  bool compare = false;
  bool pareto = false;
  bool no_bound = false;
};

// Without a plan there is none to write, and nothing that it does.
std::vector<Face> FacesOf(const jobs::PlanResult& result) {
  std::vector<Face> faces = {{".html", [&] { return report::PlanPage(result); }},
                             {".txt", [&] { return report::PlanText(result, kTextFile); }},
                             {".json", {}},
                             {".trace.json", {}}};
  if (!result.feasible()) return faces;
  faces[2].content = [&] { return plan::PlanJson(*result.planned.plan); };
  faces[3].content = [&] { return report::PlanTrace(result); };
  return faces;
}

Result<jobs::PlanRequest> RequestOf(const Flags& flags) {
  EBB_ASSIGN_OR_RETURN(jobs::PlanRequest request, RequestOf(flags.plan));
  request.model = RequestOf(flags.model);
  request.policy = flags.policy;
  request.compare = flags.compare;
  request.pareto = flags.pareto;
  request.bound = !flags.no_bound;
  request.evaluations = flags.evaluations;
  request.time_limit = flags.time_limit;
  return request;
}

Result<int> RunPlan(const Flags& flags) {
  if (flags.model.model.empty()) return Fail("expected a MODEL (see ebbtide models)");
  EBB_RETURN_IF_ERROR(CheckFiles(flags.files, {".json", ".trace.json", ".html", ".txt"}));
  EBB_ASSIGN_OR_RETURN(const jobs::PlanRequest request, RequestOf(flags));
  EBB_ASSIGN_OR_RETURN(const jobs::PlanResult result, jobs::Plan(request, CommandContext(flags.output).job()));
  EBB_RETURN_IF_ERROR(WriteFiles(flags.output, flags.files, FacesOf(result)));
  EBB_RETURN_IF_ERROR(Emit(flags.output, report::PlanJson(result),
                           [&](const report::Terminal& terminal) { return report::PlanText(result, terminal); }));
  return result.feasible() ? kSuccess : kInfeasible;
}

}  // namespace

Verb AddPlan(CLI::App& program) {
  CLI::App* app =
      program.add_subcommand("plan", "Place every storage of a training: keep, swap or recompute, within a budget");
  const auto flags = std::make_shared<Flags>();
  AddCudaModelFlags(*app, flags->model);
  AddLayoutFlags(*app, flags->model.layout);
  AddPlanFlags(*app, flags->plan);
  app->add_option("--policy", flags->policy,
                  fmt::format("Who decides: {} (default home)", fmt::join(jobs::PolicyNames(), ", ")))
      ->type_name("NAME");
  app->add_flag("--compare", flags->compare, "Also run every other policy")->disable_flag_override();
  app->add_flag("--pareto", flags->pareto, "Also plan for budgets from the plain peak down to the smallest that works")
      ->disable_flag_override();
  app->add_flag("--no-bound", flags->no_bound, "Do not work out how fast any plan could be")->disable_flag_override();
  app->add_option("--evaluations", flags->evaluations, "Schedules a search tries (default: by the size of the graph)")
      ->type_name("N")
      ->check(Check(CheckPositive));
  app->add_option("--time-limit", flags->time_limit, "Seconds of the whole command; each phase ends with what it has")
      ->type_name("SECONDS");
  AddOutputFlags(*app, flags->output, nullptr);
  AddFilesFlag(*app, flags->files,
               ".json the plan, .html a page with its timeline, .trace.json the timeline for Perfetto, .txt");
  return {app, [flags] { return RunPlan(*flags); }};
}

}  // namespace ebbtide::cli
