// Plans a step, and works out what belongs beside a plan: the smallest budget, the lower bound, other policies, the
// curve of time over budget.
#include "jobs/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/deadline.h"
#include "graph/hash.h"
#include "graph/reorder.h"
#include "jobs/step.h"
#include "jobs/stop.h"
#include "plan/bound/bound.h"
#include "plan/decide/decide.h"
#include "plan/find_order.h"
#include "sim/simulate.h"

namespace ebbtide::jobs {
namespace {

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
  Planning(const PlanRequest& request, const JobContext& context, const Deadline& deadline, const plan::Policy& policy,
           PlanResult& result)
      : request_(request),
        context_(context),
        deadline_(deadline),
        policy_(policy),
        result_(result),
        stop_(context),
        problem_(plan::MakeProblem(*result.workload, LinkOf(request.gpu, request.bandwidth),
                                   LimitsOf(request, result.budget))) {
    problem_.cancelled = stop_.Function();
    work_left_ = kSearchWork + kMinimumWork + (request.bound ? kBoundWork : 0) + (request.pareto ? kCurveWork : 0);
    for (const plan::Policy& other : plan::Policies()) work_left_ += IsCompared(other) ? kSearchWork : 0;
  }

  Status Run() {
    Begin("smallest budget");
    BeginWork(kMinimumWork);
    result_.minimum = plan::FindMinimum(problem_, {.changes = plan::kChangesPerRollout * request_.evaluations,
                                                   .seed = context_.seed,
                                                   .threads = context_.threads});
    EndWork();
    EBB_RETURN_IF_ERROR(stop_.Check());
    result_.planned = Search(policy_, "searching");
    EBB_RETURN_IF_ERROR(stop_.Check());
    const bool may_be_less = policy_.name != "home" || plan::LooksBelowTheMinimum(problem_);
    if (may_be_less && result_.feasible() && result_.planned.plan->peak < result_.minimum.found) {
      result_.minimum.found = result_.planned.plan->peak;
      result_.minimum.schedule = result_.planned.plan->schedule;
      result_.minimum.time = result_.planned.plan->time;
    }
    Begin("lower bound");
    if (request_.bound) {
      BeginWork(kBoundWork);
      result_.lower_bound = plan::LowerBound(problem_);
      EndWork();
    }
    if (request_.compare) EBB_RETURN_IF_ERROR(Compare());
    if (request_.pareto) DrawCurve();
    EBB_RETURN_IF_ERROR(stop_.Check());
    result_.planned.stopped_early |= ran_out_;
    if (result_.feasible()) Describe();
    return {};
  }

 private:
  // Of the time that is left when a phase begins, it gets its share among the phases that are still to come.
  static constexpr double kSearchWork = 3, kMinimumWork = 2, kBoundWork = 2, kCurveWork = 12;

  void BeginWork(double work) {
    problem_.deadline = deadline_.Part(work / work_left_);
    work_left_ = std::max(work_left_ - work, 1e-9);
  }
  void EndWork() { ran_out_ |= problem_.deadline.Passed(); }

  bool IsCompared(const plan::Policy& other) const {
    return request_.compare && other.name != policy_.name && result_.workload->ops() <= other.most_ops;
  }

  void Begin(std::string phase, std::size_t parts = 1) const {
    context_.Tell({.phase = std::move(phase), .share = 0, .note = "", .part = 0, .parts = parts});
  }

  plan::SearchOptions MakeSearch() const {
    plan::SearchOptions search;
    search.evaluations = request_.evaluations;
    search.seed = context_.seed;
    search.threads = context_.threads;
    return search;
  }

  plan::Planned Search(const plan::Policy& policy, const std::string& phase) {
    Begin(phase);
    BeginWork(kSearchWork);
    plan::SearchOptions search = MakeSearch();
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
      if (!own && !IsCompared(other)) continue;
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
    BeginWork(kCurveWork);
    options.search = MakeSearch();
    options.minimum = &result_.minimum;
    options.threads = context_.threads;
    options.bound = request_.bound;
    options.progress = [&](std::size_t number, double share) {
      context_.Tell({.phase = phase, .share = share, .note = "", .part = number, .parts = parts});
    };
    result_.pareto = plan::Pareto(*result_.graph, problem_, policy_, budgets, std::move(known), options);
    EndWork();
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
  const Deadline deadline_;
  const plan::Policy& policy_;
  PlanResult& result_;
  StopSignal stop_;
  plan::Problem problem_;  // with the deadline of the phase at hand
  double work_left_ = 0;   // of the phases that have not begun
  bool ran_out_ = false;   // the smallest budget, the lower bound or the curve ended for want of time
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

namespace {

// Whether the answer in another order is the better one.
bool IsBetter(const PlanResult& other, const PlanResult& own) {
  if (other.feasible() != own.feasible()) return other.feasible();
  if (!other.feasible()) return other.minimum.found < own.minimum.found;
  return other.planned.plan->time < own.planned.plan->time;
}

// The floor of one order is none of the other: what no op can do without, beside what is there throughout, is.
Bytes FloorOfAllOrders(const sim::Workload& workload, bool may_move_state) {
  Bytes state = 0, out = 0;
  for (const StorageId s : workload.storage_ids()) {
    if (workload.IsState(s) && !may_move_state) state += workload.bytes[s];
  }
  for (const OpId op : workload.op_ids()) {
    Bytes needed = workload.workspace[op];
    for (const auto list : {workload.needs[op], workload.births[op]}) {
      for (const StorageId s : list) needed += workload.IsState(s) && !may_move_state ? 0 : workload.bytes[s];
    }
    out = std::max(out, needed);
  }
  return state + out;
}

// Plans in another order as well, and takes the better answer.
Status TryAnotherOrder(const PlanRequest& request, const JobContext& context, const Deadline& deadline,
                       const plan::Policy& policy, PlanResult& own) {
  const std::shared_ptr<const TrainingGraph> graph = own.graph;
  const Bytes floor = FloorOfAllOrders(*own.workload, request.may_move_state);
  const std::vector<OpId> order = plan::FindOrder(*graph, *own.workload);
  if (!order.empty()) {
    Step step = MakeStep(std::make_shared<const TrainingGraph>(Reordered(*graph, order)), request.gpu);
    PlanResult other;
    other.plain_time = own.plain_time;
    other.plain_peak = own.plain_peak;
    other.budget = own.budget;
    other.model = own.model;
    other.policy = own.policy;
    other.gpu = own.gpu;
    other.graph = std::move(step.graph);
    other.workload = std::move(step.workload);
    EBB_RETURN_IF_ERROR(Planning(request, context, deadline, policy, other).Run());
    const Bytes smallest = std::min(own.minimum.found, other.minimum.found);
    if (IsBetter(other, own)) {
      if (other.feasible()) {
        plan::Plan& plan = *other.planned.plan;
        plan.order = order;
        plan.graph_hash = GraphHash(*graph);
        plan.plain_peak = own.plain_peak;
        EBB_RETURN_IF_ERROR(plan::CheckPlan(plan, *graph));
      }
      own = std::move(other);
    }
    own.minimum.found = smallest;
  }
  own.minimum.floor = std::min(own.minimum.floor, floor);
  own.lower_bound = 0;
  return {};
}

}  // namespace

Result<PlanResult> Plan(const PlanRequest& given, const JobContext& context) {
  PlanRequest request = given;
  if (request.may_reorder) {
    if (request.compare || request.pareto)
      return Fail("--reorder: plans for one budget and by one policy only; expected no --compare and no --pareto");
    request.bound = false;
  }
  if (!(request.time_limit >= 0)) return Fail("--time-limit: expected seconds from 0 on, found {}", request.time_limit);
  const Deadline deadline = Deadline::OfLimit(request.time_limit);
  EBB_ASSIGN_OR_RETURN(const plan::Policy* const policy, plan::FindPolicy(request.policy));
  EBB_ASSIGN_OR_RETURN(auto graph, LoadModel(request.model, context));
  if (request.alignment < 0 || request.alignment > 1 << 20 || (request.alignment & (request.alignment - 1)) != 0)
    return Fail("alignment {}: expected a power of two", request.alignment);
  Step step = MakeStep(std::move(graph), request.gpu, request.alignment);
  PlanResult result;
  result.plain_time = sim::PlainTime(*step.workload);
  result.plain_peak = sim::PlainPeak(*step.workload);
  EBB_ASSIGN_OR_RETURN(result.budget, BudgetBytes(request.budget, request.gpu, result.plain_peak));
  result.model = request.model.model;
  result.policy = std::string(policy->name);
  result.gpu = request.gpu.name;
  result.graph = std::move(step.graph);
  result.workload = std::move(step.workload);
  const Deadline first = request.may_reorder ? deadline.Part(0.5) : deadline;
  EBB_RETURN_IF_ERROR(Planning(request, context, first, *policy, result).Run());
  if (request.may_reorder) EBB_RETURN_IF_ERROR(TryAnotherOrder(request, context, deadline, *policy, result));
  return result;
}

}  // namespace ebbtide::jobs
