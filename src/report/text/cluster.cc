// A line for each policy, beside the one in which every job has its GPU to itself.
#include "report/text/cluster.h"

#include <fmt/format.h>

#include <cmath>

#include "report/text/table.h"
#include "report/text/text.h"

namespace ebbtide::report {
namespace {

std::string Percent(double ratio) { return fmt::format("{:.1f} %", 100 * ratio); }

std::string Replay(const jobs::ClusterResult& result, const Terminal& terminal) {
  Table table({{"policy", Align::kLeft},
               {"makespan", Align::kRight},
               {"to exclusive", Align::kRight},
               {"oom", Align::kRight},
               {"wait", Align::kRight},
               {"completion", Align::kRight},
               {"in use", Align::kRight},
               {"allocated", Align::kRight}});
  const jobs::PlacementOutcome* exclusive = result.Find("exclusive");
  for (const jobs::PlacementOutcome& policy : result.policies) {
    const cluster::Outcome& of = policy.outcome;
    const bool beside = exclusive != nullptr && exclusive != &policy && exclusive->outcome.makespan > 0;
    table.Add({policy.name, FormatSeconds(of.makespan),
               beside ? fmt::format("{:+.1f} %", 100 * (of.makespan / exclusive->outcome.makespan - 1)) : "",
               std::to_string(of.oom), FormatSeconds(of.mean_wait), FormatSeconds(of.mean_completion),
               Percent(of.utilisation), Percent(of.allocation)});
  }
  return table.Render(terminal);
}

std::string Filled(const jobs::ClusterResult& result, const Terminal& terminal) {
  Table table({{"policy", Align::kLeft}, {"allocated", Align::kRight}, {"jobs without a place", Align::kRight}});
  for (const jobs::PlacementOutcome& policy : result.policies) {
    table.Add({policy.name, fmt::format("{:.2f} %", 100 * policy.outcome.allocation),
               std::to_string(policy.outcome.waiting)});
  }
  return table.Render(terminal);
}

}  // namespace

std::string FormatSeconds(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 100) return fmt::format("{:.1f} s", seconds);
  if (whole < 100 * 60) return fmt::format("{:.1f} min", seconds / 60);
  if (whole < 100 * 3600) return fmt::format("{:.2f} h", seconds / 3600);
  return fmt::format("{:.1f} d", seconds / 86400);
}

std::string ClusterText(const jobs::ClusterResult& result, const Terminal& terminal) {
  const std::string title =
      fmt::format("{} jobs{} on {} GPUs of {}", result.workload.jobs.size(),
                  result.trace.empty() ? "" : " of " + result.trace, result.hardware.gpus(), result.nodes);
  std::string out = Paint(Style::kBold, Shorten(Printable(title), terminal.width, terminal.unicode), terminal) + "\n\n";
  out += result.fill ? Filled(result, terminal) : Replay(result, terminal);
  for (const jobs::PlacementOutcome& policy : result.policies) {
    const cluster::Outcome& of = policy.outcome;
    if (of.refused > 0) out += fmt::format("\n{}: {} jobs fit no GPU here", policy.name, of.refused);
    if (of.waiting > 0 && !result.fill)
      out += fmt::format("\n{}: {} jobs never found a place", policy.name, of.waiting);
  }
  for (const std::string& note : result.notes) {
    Table line({{.title = "", .wraps = true}});
    line.Add({"note: " + note});
    out += "\n" + line.Render(terminal);
  }
  if (!out.ends_with('\n')) out += '\n';
  return out;
}

}  // namespace ebbtide::report
