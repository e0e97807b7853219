#include "report/plan.h"

#include <fmt/format.h>

#include <map>

#include "report/plot.h"
#include "report/table.h"
#include "report/text.h"
#include "sim/simulate.h"

namespace ebbtide::report {
namespace {

std::string Milliseconds(Nanos time) { return fmt::format("{:.2f} ms", static_cast<double>(time) / 1e6); }

std::string Slowdown(Nanos time, Nanos plain) {
  return plain > 0 ? fmt::format("{:.3f}x", static_cast<double>(time) / static_cast<double>(plain)) : "-";
}

// Storages by what the plan does with them.
struct Counts {
  std::int64_t kept = 0, swapped = 0, recomputed = 0;
  Bytes kept_bytes = 0, swapped_bytes = 0, recomputed_bytes = 0;
};

Counts Count(const sim::Schedule& schedule, const sim::Workload& workload) {
  std::vector<std::uint8_t> how(workload.storages(), 0);
  for (const sim::Stay& stay : schedule.stays) {
    std::uint8_t& bits = how[stay.storage];
    bits |= 1;
    if (stay.begin == sim::Begin::kCopyIn) bits |= 2;
    if (stay.begin == sim::Begin::kRecompute) bits |= 4;
  }
  Counts out;
  for (std::size_t s = 0; s < how.size(); ++s) {
    if (how[s] & 2) {
      ++out.swapped, out.swapped_bytes += workload.bytes[s];
    } else if (how[s] & 4) {
      ++out.recomputed, out.recomputed_bytes += workload.bytes[s];
    } else if (how[s] & 1) {
      ++out.kept, out.kept_bytes += workload.bytes[s];
    }
  }
  return out;
}

Json OutcomeJson(const sim::Outcome& outcome) {
  return {{"recompute_ns", outcome.recompute},        {"wait_for_memory_ns", outcome.wait_for_memory},
          {"wait_for_data_ns", outcome.wait_for_data}, {"drain_ns", outcome.drain},
          {"copied_out_bytes", outcome.copied_out},    {"copied_in_bytes", outcome.copied_in},
          {"host_peak_bytes", outcome.host_peak}};
}

}  // namespace

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
  out["lower_bound_ns"] = result.lower_bound;
  out["gap"] = plan && result.lower_bound > 0 ? Json(static_cast<double>(plan->time) / static_cast<double>(result.lower_bound) - 1) : Json();
  out["minimum_budget_bytes"] = result.minimum.found;
  out["floor_bytes"] = result.minimum.floor;
  out["stopped_early"] = result.planned.stopped_early;
  out["evaluations"] = result.planned.evaluations;
  if (plan) {
    out.update(OutcomeJson(result.planned.outcome));
    const Counts counts = Count(plan->schedule, *result.workload);
    out["kept"] = {{"storages", counts.kept}, {"bytes", counts.kept_bytes}};
    out["swapped"] = {{"storages", counts.swapped}, {"bytes", counts.swapped_bytes}};
    out["recomputed"] = {{"storages", counts.recomputed}, {"bytes", counts.recomputed_bytes}};
  }
  if (!result.compared.empty()) {
    out["policies"] = Json::array();
    for (const PolicyOutcome& policy : result.compared) {
      out["policies"].push_back({{"policy", policy.policy},
                                 {"feasible", policy.feasible},
                                 {"time_ns", policy.feasible ? Json(policy.time) : Json()},
                                 {"peak_bytes", policy.feasible ? Json(policy.peak) : Json()}});
    }
  }
  return out;
}

std::string PlanText(const PlanResult& result, const Terminal& terminal) {
  std::string out = Paint(Style::kBold, fmt::format("{} in {}", result.model, FormatBytes(result.budget)), terminal);
  out += fmt::format(" on {} (plain: {}, {})\n\n", result.gpu, FormatBytes(result.plain_peak), Milliseconds(result.plain_time));
  const auto& plan = result.planned.plan;
  if (!plan) {
    const Op& op = result.graph->op(result.minimum.op);
    out += fmt::format("{}: {} finds no plan. The smallest budget found to work is {}.\n",
                       Paint(Style::kRed, "infeasible", terminal), result.policy, FormatBytes(result.minimum.found));
    out += fmt::format("No plan can do with less than {}: op {} ({}{}{}) needs that much at once.\n", FormatBytes(result.minimum.floor),
                       result.minimum.op.value, op.kind, op.layer.empty() ? "" : " in ", op.layer);
  } else {
    const sim::Outcome& outcome = result.planned.outcome;
    const Counts counts = Count(plan->schedule, *result.workload);
    Table table({{"", Align::kLeft}, {"", Align::kRight}, {"", Align::kLeft}});
    table.Add({"peak", FormatBytes(plan->peak), fmt::format("{:.1f} % of plain", 100.0 * static_cast<double>(plan->peak) / static_cast<double>(std::max<Bytes>(result.plain_peak, 1)))});
    table.Add({"iteration", Milliseconds(plan->time), Slowdown(plan->time, result.plain_time) + " of plain"});
    if (result.lower_bound > 0) table.Add({"no plan is faster than", Milliseconds(result.lower_bound), fmt::format("{} of plain; the plan takes {:.1f} % more", Slowdown(result.lower_bound, result.plain_time), 100.0 * (static_cast<double>(plan->time) / static_cast<double>(result.lower_bound) - 1))});
    table.Add({"kept", FormatBytes(counts.kept_bytes), fmt::format("{} storages", counts.kept)});
    table.Add({"swapped", FormatBytes(counts.swapped_bytes), fmt::format("{} storages, {} each way", counts.swapped, FormatBytes(outcome.copied_in))});
    table.Add({"recomputed", FormatBytes(counts.recomputed_bytes), fmt::format("{} storages, {}", counts.recomputed, Milliseconds(outcome.recompute))});
    table.Add({"waiting for memory", Milliseconds(outcome.wait_for_memory), ""});
    table.Add({"waiting for data", Milliseconds(outcome.wait_for_data + outcome.drain), ""});
    table.Add({"pinned host memory", FormatBytes(outcome.host_peak), ""});
    out += table.Render(terminal);
    out += "\nmemory over the steps\n";
    const std::vector<Bytes> bytes = sim::StepBytes(*result.workload, plan->schedule);
    const auto width = static_cast<std::size_t>(std::max(20, terminal.width - 2));
    for (const std::string& line : Plot(Stretch(SampleMaxima(bytes, width), width), 6, terminal)) out += line + "\n";
  }
  if (!result.compared.empty()) {
    Table table({{"policy"}, {"iteration", Align::kRight}, {"of plain", Align::kRight}, {"peak", Align::kRight}});
    for (const PolicyOutcome& policy : result.compared) {
      if (policy.feasible) {
        table.Add({policy.policy, Milliseconds(policy.time), Slowdown(policy.time, result.plain_time), FormatBytes(policy.peak)});
      } else {
        table.Add({policy.policy, "infeasible", "", ""});
      }
    }
    out += "\n" + table.Render(terminal);
  }
  return out;
}

Json SimulateJson(const SimulateResult& result) {
  Json out = NewResult("simulate");
  out["model"] = result.model;
  out["plan"] = result.plan;
  out["valid"] = true;
  out["time_ns"] = result.outcome.time;
  out["peak_bytes"] = result.peak;
  out["live_peak_bytes"] = result.outcome.peak;
  out["budget_bytes"] = result.details->budget;
  out.update(OutcomeJson(result.outcome));
  return out;
}

std::string SimulateText(const SimulateResult& result) {
  return fmt::format("valid: {} in {} of {} ({} plain), policy {}\n", Milliseconds(result.outcome.time), FormatBytes(result.peak),
                     FormatBytes(result.details->budget), Milliseconds(result.details->plain_time), result.details->policy);
}

}  // namespace ebbtide::report
