// ebbtide plan MODEL: which storages to keep, swap or recompute, so that a training fits a budget.
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "base/file.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/plan_flags.h"
#include "cli/training_flags.h"
#include "cli/verb.h"
#include "plan/bound.h"
#include "report/plan.h"
#include "report/plan_trace.h"

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
  bool no_bound = false;
};

plan::SearchOptions SearchOf(const Flags& flags) {
  plan::SearchOptions search;
  search.evaluations = flags.evaluations;
  search.seed = flags.output.seed;
  search.threads = ThreadsOf(flags.output);
  if (flags.time_limit > 0) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(flags.time_limit);
    search.seconds = flags.time_limit;
    search.stop = [end] { return std::chrono::steady_clock::now() >= end; };
  }
  return search;
}

Status WriteFiles(const Flags& flags, const report::PlanResult& result) {
  const plan::Plan& plan = *result.planned.plan;
  for (const std::string& file : flags.files) {
    std::string content;
    if (file.ends_with(".trace.json")) {
      content = report::PlanTrace(*result.graph, *result.workload, plan.schedule, result.planned.outcome);
    } else if (file.ends_with(".json")) {
      content = plan::PlanJson(plan);
    } else {
      content = report::PlanText(result, kTextFile);
    }
    EBB_RETURN_IF_ERROR(WriteFile(file, content));
    Remark(flags.output, fmt::format("wrote {}", file));
  }
  return {};
}

Result<int> RunPlan(const Flags& flags) {
  if (flags.model.model.empty()) return Fail("expected a MODEL (see ebbtide models)");
  if (!(flags.time_limit >= 0)) return Fail("--time-limit: expected seconds from 0 on, found {}", flags.time_limit);
  for (const std::string& file : flags.files) {
    if (!file.ends_with(".json") && !file.ends_with(".txt")) return Fail("-o {}: expected a name that ends in .json, .trace.json or .txt", file);
  }
  EBB_ASSIGN_OR_RETURN(const plan::Policy* const policy, plan::FindPolicy(flags.policy));
  EBB_ASSIGN_OR_RETURN(TrainingGraph graph, Load(flags.model, flags.output));
  EBB_ASSIGN_OR_RETURN(const auto task, MakeTask(flags.plan, std::move(graph)));
  const plan::Problem problem = plan::MakeProblem(task->workload, task->link, task->limits);
  const plan::SearchOptions search = SearchOf(flags);
  report::PlanResult result{.model = flags.model.model, .policy = std::string(policy->name), .gpu = task->gpu.name,
                            .budget = task->limits.budget, .graph = &task->graph, .workload = &task->workload,
                            .planned = plan::MakePlan(task->graph, problem, *policy, search),
                            .minimum = plan::FindMinimum(problem), .plain_time = sim::PlainTime(task->workload),
                            .plain_peak = sim::PlainPeak(task->workload), .lower_bound = flags.no_bound ? sim::PlainTime(task->workload) : plan::LowerBound(problem), .compared = {}};
  if (result.planned.plan) {
    result.planned.plan->gpu = task->gpu.name;
    result.minimum.found = std::min(result.minimum.found, result.planned.plan->peak);
  }
  if (flags.compare) {
    for (const plan::Policy& other : plan::Policies()) {
      if (&other != policy && task->workload.ops() > other.most_ops) continue;
      const plan::Planned planned = &other == policy ? result.planned : plan::MakePlan(task->graph, problem, other, search);
      report::PolicyOutcome outcome{.policy = std::string(other.name), .feasible = planned.plan.has_value()};
      if (planned.plan) outcome.time = planned.plan->time, outcome.peak = planned.plan->peak;
      result.compared.push_back(std::move(outcome));
    }
  }
  if (result.planned.plan) EBB_RETURN_IF_ERROR(WriteFiles(flags, result));
  EBB_RETURN_IF_ERROR(Emit(flags.output, report::PlanJson(result), [&](const report::Terminal& terminal) { return report::PlanText(result, terminal); }));
  return result.feasible() ? kSuccess : kInfeasible;
}

}  // namespace

Verb AddPlan(CLI::App& program) {
  CLI::App* app = program.add_subcommand("plan", "Place every storage of a training: keep, swap or recompute, within a budget");
  const auto flags = std::make_shared<Flags>();
  AddCudaModelFlags(*app, flags->model);
  AddPlanFlags(*app, flags->plan);
  app->add_option("--policy", flags->policy, "Who decides (default home)")->type_name("NAME");
  app->add_flag("--compare", flags->compare, "Also run every other policy");
  app->add_flag("--no-bound", flags->no_bound, "Do not work out how fast any plan could be");
  app->add_option("--evaluations", flags->evaluations, "Schedules a search tries (default: by the size of the graph)")->type_name("N")->check(Check(CheckPositive));
  app->add_option("--time-limit", flags->time_limit, "Seconds after which a search ends with what it has")->type_name("SECONDS");
  AddOutputFlags(*app, flags->output, nullptr);
  AddFilesFlag(*app, flags->files, ".json the plan, .trace.json its timeline for Perfetto, .txt");
  return {app, [flags] { return RunPlan(*flags); }};
}

}  // namespace ebbtide::cli
