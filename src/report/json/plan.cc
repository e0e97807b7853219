// Writes the fields of a plan.
#include "report/json/plan.h"

#include <algorithm>

namespace ebbtide::report {
namespace {

using jobs::PlanResult;
using jobs::PolicyOutcome;

Json OutcomeJson(const sim::Outcome& outcome) {
  return {{"recompute_ns", outcome.recompute},         {"wait_for_memory_ns", outcome.wait_for_memory},
          {"wait_for_data_ns", outcome.wait_for_data}, {"wait_for_ranks_ns", outcome.wait_for_ranks},
          {"exchange_ns", outcome.exchange},           {"drain_ns", outcome.drain},
          {"copied_out_bytes", outcome.copied_out},    {"copied_in_bytes", outcome.copied_in},
          {"host_peak_bytes", outcome.host_peak}};
}

Json PolicyJson(const PolicyOutcome& policy) {
  return {{"policy", policy.policy},
          {"feasible", policy.feasible},
          {"time_ns", policy.feasible ? Json(policy.time) : Json()},
          {"peak_bytes", policy.feasible ? Json(policy.peak) : Json()}};
}

Json PointJson(const plan::ParetoPoint& point, Nanos plain_time) {
  return {{"budget_bytes", point.budget},
          {"feasible", point.feasible()},
          {"time_ns", point.feasible() ? Json(point.planned->plan->time) : Json()},
          {"peak_bytes", point.feasible() ? Json(point.planned->plan->peak) : Json()},
          {"lower_bound_ns", std::max(point.lower_bound, plain_time)}};
}

}  // namespace

void AddOutcome(Json& out, const PlanResult& result) {
  out.update(OutcomeJson(result.planned.outcome));
  const auto add = [&](const char* name, const plan::Handling& handling) {
    out[name] = {{"storages", handling.storages}, {"bytes", handling.bytes}};
  };
  add("kept", result.summary.kept);
  add("swapped", result.summary.swapped);
  add("recomputed", result.summary.recomputed);
}

Json PlanJson(const PlanResult& result) {
  Json out = NewResult("plan");
  out["model"] = result.model;
  out["feasible"] = result.feasible();
  out["policy"] = result.policy;
  out["gpu"] = result.gpu;
  out["budget_bytes"] = result.budget;
  const auto& plan = result.planned.plan;
  out["peak_bytes"] = plan ? Json(plan->peak) : Json();
  out["live_peak_bytes"] = plan ? Json(result.planned.outcome.peak) : Json();
  out["time_ns"] = plan ? Json(plan->time) : Json();
  out["plain_time_ns"] = result.plain_time;
  out["plain_peak_bytes"] = result.plain_peak;
  out["lower_bound_ns"] = std::max(result.lower_bound, result.plain_time);  // which is one
  const bool has_gap = plan && result.lower_bound > 0;
  out["gap"] = has_gap ? Json(static_cast<double>(plan->time) / static_cast<double>(result.lower_bound) - 1) : Json();
  out["minimum_budget_bytes"] = result.minimum.found;
  out["floor_bytes"] = result.minimum.floor;
  out["stopped_early"] = result.planned.stopped_early;
  out["evaluations"] = result.planned.evaluations;
  out["reordered"] = plan && !plan->order.empty();
  if (plan) AddOutcome(out, result);
  if (!result.compared.empty()) {
    out["policies"] = Json::array();
    for (const PolicyOutcome& policy : result.compared) out["policies"].push_back(PolicyJson(policy));
  }
  if (!result.pareto.empty()) {
    out["pareto"] = Json::array();
    for (const plan::ParetoPoint& point : result.pareto) out["pareto"].push_back(PointJson(point, result.plain_time));
  }
  return out;
}

}  // namespace ebbtide::report
