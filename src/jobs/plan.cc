// Plans a step, and works out what belongs beside a plan: the smallest budget, the lower bound, other policies, the
// curve of time over budget.
#include "jobs/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "jobs/step.h"
#include "jobs/stop.h"
#include "plan/bound/bound.h"
#include "plan/decide/decide.h"
#include "sim/simulate.h"

namespace ebbtide::jobs {
namespace {

using Clock = std::chrono::steady_clock;

double ShareOf(std::int64_t done, std::int64_t all) {
  return static_cast<double>(std::min(done, all)) / static_cast<double>(std::max<std::int64_t>(all, 1));
}

plan::Limits LimitsOf(const PlanRequest& request, Bytes budget) {
  return {.budget = budget,
          .host = request.host_memory,
          .may_swap = request.may_swap,
          .may_recompute = request.may_recompute,
          .may_move_state = request.may_move_state};
}

class Planning {
 public:
  Planning(const PlanRequest& request, const JobContext& context, const plan::Policy& policy, PlanResult& result)
      : request_(request),
        context_(context),
        policy_(policy),
        result_(result),
        stop_(context),
        problem_(plan::MakeProblem(*result.workload, LinkOf(request.gpu, request.bandwidth),
                                   LimitsOf(request, result.budget))) {
    problem_.cancelled = stop_.Function();
  }

  Status Run() {
    Begin("smallest budget");
    result_.minimum = plan::FindMinimum(problem_, {.changes = plan::kChangesPerRollout * request_.evaluations,
                                                   .seed = context_.seed,
                                                   .threads = context_.threads,
                                                   .stop = EndOf(&ran_out_)});
    EBB_RETURN_IF_ERROR(stop_.Check());
    result_.planned = Search(policy_, "searching");
    EBB_RETURN_IF_ERROR(stop_.Check());
    if (result_.feasible() && result_.planned.plan->peak < result_.minimum.found) {
      result_.minimum.found = result_.planned.plan->peak;
      result_.minimum.schedule = result_.planned.plan->schedule;
      result_.minimum.time = result_.planned.plan->time;
    }
    Begin("lower bound");
    if (request_.bound) result_.lower_bound = plan::LowerBound(problem_, BoundFromNow());
    if (request_.compare) EBB_RETURN_IF_ERROR(Compare());
    if (request_.pareto) DrawCurve();
    EBB_RETURN_IF_ERROR(stop_.Check());
    result_.planned.stopped_early |= ran_out_;
    if (result_.feasible()) Describe();
    return {};
  }

 private:
  void Begin(std::string phase, std::size_t parts = 1) const {
    context_.Tell({.phase = std::move(phase), .share = 0, .note = "", .part = 0, .parts = parts});
  }

  // Says when work that begins now has to end; `ran_out`, where it is given, is set when it did.
  std::function<bool()> EndOf(std::atomic<bool>* ran_out = nullptr) {
    if (request_.time_limit <= 0) return problem_.cancelled;
    const auto end = Clock::now() + std::chrono::duration<double>(request_.time_limit);
    return [this, end, ran_out] {
      if (stop_.Given()) return true;
      if (Clock::now() < end) return false;
      if (ran_out) *ran_out = true;
      return true;
    };
  }

  plan::SearchOptions SearchFromNow() {
    plan::SearchOptions search;
    search.evaluations = request_.evaluations;
    search.seed = context_.seed;
    search.threads = context_.threads;
    search.seconds = request_.time_limit;
    search.stop = EndOf();
    return search;
  }
  plan::BoundOptions BoundFromNow() {
    plan::BoundOptions bound;
    bound.stop = EndOf(&ran_out_);
    return bound;
  }

  plan::Planned Search(const plan::Policy& policy, const std::string& phase) {
    Begin(phase);
    plan::SearchOptions search = SearchFromNow();
    search.progress = [&](std::int64_t done, std::int64_t all, Nanos best) {
      context_.Tell({.phase = phase,
                     .share = ShareOf(done, all),
                     .note = best == plan::kInfeasible ? "" : "best " + FormatTime(best),
                     .part = 0,
                     .parts = 1});
    };
    return plan::MakePlan(*result_.graph, problem_, policy, search, &result_.minimum);
  }

  Status Compare() {
    for (const plan::Policy& other : plan::Policies()) {
      const bool own = other.name == policy_.name;
      if (!own && result_.workload->ops() > other.most_ops) continue;
      const plan::Planned planned = own ? result_.planned : Search(other, fmt::format("policy {}", other.name));
      EBB_RETURN_IF_ERROR(stop_.Check());
      PolicyOutcome outcome{.policy = std::string(other.name), .feasible = planned.plan.has_value()};
      if (planned.plan) outcome.time = planned.plan->time, outcome.peak = planned.plan->peak;
      result_.compared.push_back(std::move(outcome));
    }
    return {};
  }

  // The plan that was asked for is a point of the curve, and where a plan for less memory is faster, it is taken.
  void DrawCurve() {
    const Bytes budget = result_.budget;
    std::vector<Bytes> budgets = plan::ParetoBudgets(result_.plain_peak, result_.minimum.found);
    std::vector<plan::ParetoPoint> known;
    if (result_.feasible() && budget <= result_.plain_peak) {
      known.push_back({.budget = budget,
                       .planned = std::make_shared<const plan::Planned>(result_.planned),
                       .lower_bound = result_.lower_bound});
      std::erase(budgets, budget);
    }
    const std::string phase = fmt::format("{} budgets", budgets.size());
    const std::size_t parts = budgets.size();
    Begin(phase, parts);
    plan::ParetoOptions options;
    options.search = [this] { return SearchFromNow(); };
    options.minimum = &result_.minimum;
    options.threads = context_.threads;
    if (request_.bound) options.bound = [this] { return BoundFromNow(); };
    options.progress = [&](std::size_t number, double share) {
      context_.Tell({.phase = phase, .share = share, .note = "", .part = number, .parts = parts});
    };
    result_.pareto = plan::Pareto(*result_.graph, problem_, policy_, budgets, std::move(known), options);
    for (const plan::ParetoPoint& point : result_.pareto) {
      if (point.budget != budget || !point.feasible()) continue;
      result_.lower_bound = std::max(result_.lower_bound, point.lower_bound);
      if (point.planned->plan->time >= result_.planned.plan->time) continue;
      result_.planned = *point.planned;
      result_.planned.plan->budget = budget;
    }
  }

  void Describe() {
    plan::Plan& plan = *result_.planned.plan;
    plan.gpu = request_.gpu.name;
    result_.summary = plan::Summarize(*result_.workload, plan.schedule, result_.planned.outcome);
  }

  const PlanRequest& request_;
  const JobContext& context_;
  const plan::Policy& policy_;
  PlanResult& result_;
  StopSignal stop_;
  plan::Problem problem_;
  std::atomic<bool> ran_out_ = false;  // the smallest budget or a lower bound ended for want of time
};

}  // namespace

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names;
  for (const plan::Policy& policy : plan::Policies()) names.emplace_back(policy.name);
  return names;
}

Status CheckPolicy(const std::string& name) {
  EBB_RETURN_IF_ERROR(plan::FindPolicy(name));
  return {};
}

Result<PlanResult> Plan(const PlanRequest& request, const JobContext& context) {
  if (!(request.time_limit >= 0)) return Fail("--time-limit: expected seconds from 0 on, found {}", request.time_limit);
  EBB_ASSIGN_OR_RETURN(const plan::Policy* const policy, plan::FindPolicy(request.policy));
  EBB_ASSIGN_OR_RETURN(auto graph, LoadModel(request.model, context));
  Step step = MakeStep(std::move(graph), request.gpu);
  PlanResult result;
  result.plain_time = sim::PlainTime(*step.workload);
  result.plain_peak = sim::PlainPeak(*step.workload);
  EBB_ASSIGN_OR_RETURN(result.budget, BudgetBytes(request.budget, request.gpu, result.plain_peak));
  result.model = request.model.model;
  result.policy = std::string(policy->name);
  result.gpu = request.gpu.name;
  result.graph = std::move(step.graph);
  result.workload = std::move(step.workload);
  EBB_RETURN_IF_ERROR(Planning(request, context, *policy, result).Run());
  return result;
}

}  // namespace ebbtide::jobs
