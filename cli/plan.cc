// ebbtide plan MODEL: which storages to keep, swap or recompute, so that a training fits a budget.
#include "report/plan.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "base/file.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/plan_flags.h"
#include "cli/progress.h"
#include "cli/training_flags.h"
#include "cli/verb.h"
#include "plan/bound.h"
#include "report/plan_page.h"
#include "report/plan_summary.h"
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
  bool pareto = false;
  bool no_bound = false;
};

// Of a search that begins now.
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

double ShareOf(std::int64_t done, std::int64_t all) {
  return static_cast<double>(done) / static_cast<double>(std::max<std::int64_t>(all, 1));
}

// A plan for a task, and what others would make of it. What is being done is shown meanwhile.
class Planning {
 public:
  Planning(const Flags& flags, const PlanningTask& task, const plan::Policy& policy)
      : flags_(flags),
        task_(task),
        policy_(policy),
        problem_(plan::MakeProblem(task.workload, task.link, task.limits)),
        progress_(flags.output) {}

  report::PlanResult Run() {
    report::PlanResult result{.model = flags_.model.model,
                              .policy = std::string(policy_.name),
                              .gpu = task_.gpu.name,
                              .budget = task_.limits.budget,
                              .graph = &task_.graph,
                              .workload = &task_.workload,
                              .planned = Search(policy_, "searching"),
                              .minimum = {},
                              .plain_time = sim::PlainTime(task_.workload),
                              .plain_peak = sim::PlainPeak(task_.workload),
                              .lower_bound = 0,
                              .compared = {},
                              .pareto = {}};
    progress_.Begin("smallest budget");
    result.minimum = plan::FindMinimum(problem_);
    if (result.feasible()) result.minimum.found = std::min(result.minimum.found, result.planned.plan->peak);
    progress_.Begin("lower bound");
    if (!flags_.no_bound) result.lower_bound = plan::LowerBound(problem_);
    if (flags_.compare) Compare(result);
    if (flags_.pareto) DrawCurve(result);
    if (result.feasible()) result.planned.plan->gpu = task_.gpu.name;
    progress_.Erase();
    return result;
  }

 private:
  plan::Planned Search(const plan::Policy& policy, const std::string& what) {
    progress_.Begin(what);
    plan::SearchOptions search = SearchOf(flags_);
    search.progress = [this](std::int64_t done, std::int64_t all, Nanos best) {
      progress_.Show(ShareOf(done, all), best == plan::kInfeasible ? "" : "best " + report::FormatTime(best));
    };
    return plan::MakePlan(task_.graph, problem_, policy, search);
  }

  void Compare(report::PlanResult& result) {
    for (const plan::Policy& other : plan::Policies()) {
      const bool own = other.name == policy_.name;
      if (!own && task_.workload.ops() > other.most_ops) continue;
      const plan::Planned planned = own ? result.planned : Search(other, fmt::format("policy {}", other.name));
      report::PolicyOutcome outcome{.policy = std::string(other.name), .feasible = planned.plan.has_value()};
      if (planned.plan) outcome.time = planned.plan->time, outcome.peak = planned.plan->peak;
      result.compared.push_back(std::move(outcome));
    }
  }

  // The plan that was asked for is a point of the curve, and where a plan for less memory is faster, it is taken.
  void DrawCurve(report::PlanResult& result) {
    const Bytes budget = result.budget;
    std::vector<Bytes> budgets = plan::ParetoBudgets(result.plain_peak, result.minimum.found);
    std::vector<plan::ParetoPoint> known;
    if (result.feasible() && budget <= result.plain_peak) {
      known.push_back({.budget = budget,
                       .planned = std::make_shared<const plan::Planned>(result.planned),
                       .lower_bound = result.lower_bound});
      std::erase(budgets, budget);
    }
    progress_.Begin(fmt::format("{} budgets", budgets.size()), budgets.size());
    const plan::ParetoOptions options{
        .search = [this] { return SearchOf(flags_); },
        .threads = ThreadsOf(flags_.output),
        .bound = !flags_.no_bound,
        .progress = [this](std::size_t number, double share) { progress_.Show(share, "", number); }};
    result.pareto = plan::Pareto(task_.graph, problem_, policy_, budgets, std::move(known), options);
    for (const plan::ParetoPoint& point : result.pareto) {
      if (point.budget != budget || !point.feasible()) continue;
      result.lower_bound = std::max(result.lower_bound, point.lower_bound);
      if (point.planned->plan->time >= result.planned.plan->time) continue;
      result.planned = *point.planned;
      result.planned.plan->budget = budget;
    }
  }

  const Flags& flags_;
  const PlanningTask& task_;
  const plan::Policy& policy_;
  const plan::Problem problem_;
  Progress progress_;
};

Status WriteFiles(const Flags& flags, const report::PlanResult& result) {
  for (const std::string& file : flags.files) {
    std::string content;
    if (file.ends_with(".html")) {
      content = report::PlanPage(result);
    } else if (file.ends_with(".txt")) {
      content = report::PlanText(result, kTextFile);
    } else if (!result.feasible()) {
      Remark(flags.output, fmt::format("-o {}: not written: there is no plan", file));
      continue;
    } else if (file.ends_with(".trace.json")) {
      content =
          report::PlanTrace(*result.graph, *result.workload, result.planned.plan->schedule, result.planned.outcome);
    } else {
      content = plan::PlanJson(*result.planned.plan);
    }
    EBB_RETURN_IF_ERROR(WriteFile(file, content));
    Remark(flags.output, fmt::format("wrote {}", file));
  }
  return {};
}

Status CheckFlags(const Flags& flags) {
  if (flags.model.model.empty()) return Fail("expected a MODEL (see ebbtide models)");
  if (!(flags.time_limit >= 0)) return Fail("--time-limit: expected seconds from 0 on, found {}", flags.time_limit);
  for (const std::string& file : flags.files) {
    EBB_RETURN_IF_ERROR(CheckFile(file, {".json", ".trace.json", ".html", ".txt"}));
  }
  return CheckPlanFlags(flags.plan);
}

Result<int> RunPlan(const Flags& flags) {
  EBB_RETURN_IF_ERROR(CheckFlags(flags));
  EBB_ASSIGN_OR_RETURN(const plan::Policy* const policy, plan::FindPolicy(flags.policy));
  EBB_ASSIGN_OR_RETURN(TrainingGraph graph, Load(flags.model, flags.output));
  EBB_ASSIGN_OR_RETURN(const auto task, MakeTask(flags.plan, std::move(graph)));
  const report::PlanResult result = Planning(flags, *task, *policy).Run();
  EBB_RETURN_IF_ERROR(WriteFiles(flags, result));
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
  AddPlanFlags(*app, flags->plan);
  std::vector<std::string_view> names;
  for (const plan::Policy& policy : plan::Policies()) names.push_back(policy.name);
  app->add_option("--policy", flags->policy, fmt::format("Who decides: {} (default home)", fmt::join(names, ", ")))
      ->type_name("NAME");
  app->add_flag("--compare", flags->compare, "Also run every other policy")->disable_flag_override();
  app->add_flag("--pareto", flags->pareto, "Also plan for budgets from the plain peak down to the smallest that works")
      ->disable_flag_override();
  app->add_flag("--no-bound", flags->no_bound, "Do not work out how fast any plan could be")->disable_flag_override();
  app->add_option("--evaluations", flags->evaluations, "Schedules a search tries (default: by the size of the graph)")
      ->type_name("N")
      ->check(Check(CheckPositive));
  app->add_option("--time-limit", flags->time_limit, "Seconds after which a search ends with what it has")
      ->type_name("SECONDS");
  AddOutputFlags(*app, flags->output, nullptr);
  AddFilesFlag(*app, flags->files,
               ".json the plan, .html a page with its timeline, .trace.json the timeline for Perfetto, .txt");
  return {app, [flags] { return RunPlan(*flags); }};
}

}  // namespace ebbtide::cli
