// Plans for people: figures, the iteration as a strip, policies beside each other, time over budget.
#include "report/text/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/labels.h"
#include "report/text/plan_strip.h"
#include "report/text/plot.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace ebbtide::report {
namespace {

using jobs::PlanResult;
using jobs::PolicyOutcome;

constexpr int kCurveHeight = 6;

std::string Percent(double ratio) { return fmt::format("{:.1f} %", 100 * ratio); }
double Ratio(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(whole, 1));
}
std::string Storages(const plan::Handling& handling) {
  return fmt::format("{} storage{}", WithSeparators(handling.storages), handling.storages == 1 ? "" : "s");
}

void AddHandling(const PlanResult& result, Table& table) {
  const sim::Outcome& outcome = result.planned.outcome;
  const plan::Summary& summary = result.summary;
  if (outcome.exchange > 0) {
    table.Add({"collectives", FormatTime(outcome.exchange),
               fmt::format("beside computation, which waits {} for them", FormatTime(outcome.wait_for_ranks))});
  }
  if (summary.moved.empty()) return;
  table.Add({"kept", FormatBytes(summary.kept.bytes), Storages(summary.kept) + " saved for backward"});
  const std::string out = FormatBytes(outcome.copied_out), in = FormatBytes(outcome.copied_in);
  table.Add({"swapped", FormatBytes(summary.swapped.bytes),
             Storages(summary.swapped) +
                 (out == in ? fmt::format(", {} each way", out) : fmt::format(", {} out, {} in", out, in))});
  table.Add({"recomputed", FormatBytes(summary.recomputed.bytes),
             fmt::format("{} in {}", Storages(summary.recomputed), FormatTime(outcome.recompute))});
  table.Add({"waiting for memory", FormatTime(outcome.wait_for_memory), ""});
  table.Add({"waiting for data", FormatTime(outcome.wait_for_data), ""});
  if (outcome.drain > 0) table.Add({"last copies", FormatTime(outcome.drain), ""});
  if (outcome.host_peak > 0) table.Add({"pinned host memory", FormatBytes(outcome.host_peak), ""});
}

std::string Figures(const PlanResult& result, const Terminal& terminal) {
  const plan::Plan& plan = *result.planned.plan;
  Table table({{"", Align::kLeft}, {"", Align::kRight}, {.title = "", .wraps = true}});
  table.Add({"peak", FormatBytes(plan.peak), Percent(Ratio(plan.peak, result.plain_peak)) + " of plain"});
  table.Add({"iteration", FormatTime(plan.time), FormatSlowdown(plan.time, result.plain_time) + " of plain"});
  if (!plan.order.empty()) table.Add({"order of ops", "another", "than the graph's, with the same bits"});
  if (result.lower_bound > 0) {
    table.Add({"no plan is faster than", FormatTime(result.lower_bound),
               fmt::format("{} of plain; this one takes {} more", FormatSlowdown(result.lower_bound, result.plain_time),
                           Percent(Ratio(plan.time, result.lower_bound) - 1))});
  }
  AddHandling(result, table);
  return table.Render(terminal) + "\n" +
         PlanStrip(*result.graph, *result.workload, plan.schedule, result.planned.outcome, terminal);
}

std::string Policies(const PlanResult& result, const Terminal& terminal) {
  if (result.compared.empty()) return "";
  Table table({{"policy"}, {"iteration", Align::kRight}, {"of plain", Align::kRight}, {"peak", Align::kRight}});
  for (const PolicyOutcome& policy : result.compared) {
    if (policy.feasible) {
      table.Add({policy.policy, FormatTime(policy.time), FormatSlowdown(policy.time, result.plain_time),
                 FormatBytes(policy.peak)});
    } else {
      table.Add({policy.policy, "infeasible", "", ""});
    }
  }
  return "\n" + table.Render(terminal);
}

// By column what the fastest plan known for its budget takes beyond the plain step.
std::vector<std::int64_t> Overheads(const PlanResult& result, Bytes least, Bytes most, std::size_t columns) {
  std::vector<std::int64_t> out(columns, 0);
  for (std::size_t i = 0; i < columns; ++i) {
    const double share = columns > 1 ? static_cast<double>(i) / static_cast<double>(columns - 1) : 1;
    const auto budget = least + static_cast<Bytes>(share * static_cast<double>(most - least));
    for (const plan::ParetoPoint& point : result.pareto) {
      if (!point.feasible() || point.budget > budget) continue;
      out[i] = point.planned->plan->time - result.plain_time;
      break;
    }
  }
  return out;
}

std::string Curve(const PlanResult& result, const Terminal& terminal) {
  const auto last = std::ranges::find_if(result.pareto.rbegin(), result.pareto.rend(), &plan::ParetoPoint::feasible);
  if (last == result.pareto.rend()) return "";
  const Bytes least = last->budget, most = result.pareto.front().budget;
  const Nanos slowest = last->planned->plan->time;
  const std::string top = FormatSlowdown(slowest, result.plain_time);
  if (least == most || slowest <= result.plain_time) return "";
  const int label = Columns(top);
  const int width = std::clamp(terminal.width - label - 1, 20, 72);
  const auto lines = Plot(Overheads(result, least, most, static_cast<std::size_t>(width)), kCurveHeight, terminal);
  std::string out = "\niteration over budget\n";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string mark = i == 0 ? top : i + 1 == lines.size() ? "1.000x" : "";
    const std::string blocks = lines[i].substr(0, lines[i].find_last_not_of(' ') + 1);
    out += PadLeft(mark, label) + (blocks.empty() ? "" : " " + Paint(Style::kBlue, blocks, terminal)) + "\n";
  }
  const std::string right = fmt::format("{} ({})", FormatBytes(most), Percent(Ratio(most, result.plain_peak)));
  const std::string left = fmt::format("{} ({})", FormatBytes(least), Percent(Ratio(least, result.plain_peak)));
  const std::string axis = left + PadLeft(right, std::max(Columns(right) + 1, width - Columns(left)));
  return out + PadLeft("", label + 1) + Paint(Style::kDim, axis, terminal) + "\n";
}

std::string Pareto(const PlanResult& result, const Terminal& terminal) {
  if (result.pareto.empty()) return "";
  const bool bounded = std::ranges::any_of(result.pareto, [](const auto& point) { return point.lower_bound > 0; });
  std::vector<Column> columns{{"budget", Align::kRight},
                              {"of plain", Align::kRight},
                              {"iteration", Align::kRight},
                              {"slowdown", Align::kRight}};
  if (bounded) columns.insert(columns.end(), {{"bound", Align::kRight}, {"gap", Align::kRight}});
  columns.push_back({""});
  Table table(columns);
  for (const plan::ParetoPoint& point : result.pareto) {
    std::vector<std::string> cells{FormatBytes(point.budget), Percent(Ratio(point.budget, result.plain_peak))};
    if (point.feasible()) {
      const Nanos time = point.planned->plan->time, bound = point.lower_bound;
      cells.insert(cells.end(), {FormatTime(time), FormatSlowdown(time, result.plain_time)});
      if (bounded) cells.push_back(FormatSlowdown(bound, result.plain_time));
      if (bounded) cells.push_back(Percent(Ratio(time, bound) - 1));
    } else {
      cells.push_back("infeasible");
    }
    cells.resize(columns.size() - 1);
    cells.push_back(point.budget == result.budget ? "the budget" : "");
    table.Add(std::move(cells));
  }
  return "\n" + table.Render(terminal) + Curve(result, terminal);
}

// The title in bold, and the rest behind it, or on lines of their own where they are too wide for one.
std::string Heading(const std::string& title, const std::string& rest, const Terminal& terminal) {
  if (Columns(title + rest) <= terminal.width) return Paint(Style::kBold, title, terminal) + rest + "\n";
  std::string out;
  for (const std::string& line : WrapNames(title + rest, terminal.width, terminal.unicode)) {
    out += (out.empty() ? Paint(Style::kBold, line, terminal) : line) + "\n";
  }
  return out;
}

}  // namespace

std::string FormatSlowdown(Nanos time, Nanos plain) {
  return plain > 0 ? fmt::format("{:.3f}x", static_cast<double>(time) / static_cast<double>(plain)) : "-";
}

std::vector<std::string> InfeasibleLines(const PlanResult& result) {
  if (result.feasible()) return {};
  const plan::Minimum& minimum = result.minimum;
  const char* const why = result.planned.stopped_early ? " in the time it was given" : "";
  return {fmt::format("{} finds no plan within {}{}.", result.policy, FormatBytes(result.budget), why),
          fmt::format("The smallest budget found to work is {}.", FormatBytes(minimum.found)),
          fmt::format("No plan can do with less than {}: op {} ({}) needs that much at once.",
                      FormatBytes(minimum.floor), minimum.op.value, Printable(OpLabel(*result.graph, minimum.op)))};
}

std::string PlanText(const PlanResult& result, const Terminal& terminal) {
  std::string out = Heading(Printable(fmt::format("{} in {}", result.model, FormatBytes(result.budget))),
                            fmt::format(" on {} (plain: {}, {})", Printable(result.gpu), FormatBytes(result.plain_peak),
                                        FormatTime(result.plain_time)),
                            terminal);
  if (result.plain_peak <= result.budget) out += "It fits without a plan.\n";
  if (result.planned.stopped_early) out += "The search ended early, with what it had.\n";
  out += "\n";
  if (result.feasible()) {
    out += Figures(result, terminal);
  } else {
    out += Paint(Style::kRed, "infeasible", terminal) + "\n";
    for (const std::string& sentence : InfeasibleLines(result)) {
      for (const std::string& line : Wrap(sentence, terminal.width)) out += line + "\n";
    }
  }
  return out + Policies(result, terminal) + Pareto(result, terminal);
}

std::string SimulateText(const jobs::SimulateResult& result, const Terminal& terminal) {
  const PlanResult& replayed = result.replayed;
  return FitLines(fmt::format("valid: {} of {} in {}, policy {} (plain: {}, {})\n\n",
                              FormatBytes(replayed.planned.plan->peak), FormatBytes(replayed.budget),
                              FormatTime(replayed.planned.plan->time), Printable(replayed.policy),
                              FormatBytes(replayed.plain_peak), FormatTime(replayed.plain_time)),
                  terminal.width) +
         Figures(replayed, terminal);
}

}  // namespace ebbtide::report
