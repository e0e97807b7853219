// A mix for people: figures, its jobs, memory over time, and other ways beside it.
#include "report/text/share.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "report/share_samples.h"
#include "report/text/plot.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace ebbtide::report {
namespace {

constexpr int kPlotHeight = 3;

std::string Percent(double ratio) { return fmt::format("{:.1f} %", 100 * ratio); }
double Ratio(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(whole, 1));
}

std::string NameOf(const share::Job& job) { return fmt::format("{}:{}", job.training->model, job.training->batch); }

std::string Figures(const jobs::ShareResult& result, const Terminal& terminal) {
  const share::Mix& mix = result.mix;
  const share::Together& together = mix.together;
  Table table({{"", Align::kLeft}, {"", Align::kRight}, {.title = "", .wraps = true}});
  table.Add(
      {"peak", FormatBytes(mix.peak), Percent(Ratio(mix.peak, mix.capacity)) + " of " + FormatBytes(mix.capacity)});
  table.Add({"a round, one iteration of each", FormatTime(together.round),
             fmt::format("in turn {}: {:.3f}x", FormatTime(mix.exclusive), mix.speedup())});
  table.Add({"GPU busy", Percent(together.busy), ""});
  table.Add(
      {"groups that overlap", Percent(Ratio(together.overlapped, together.group_runs)), "with a group of another job"});
  if (result.common && result.common->found()) {
    table.Add({"batch", Percent(result.common->share),
               fmt::format("of the largest alone; {} without plans", Percent(result.common->unplanned_share))});
  }
  return table.Render(terminal);
}

std::string Jobs(const jobs::ShareResult& result, const Terminal& terminal) {
  const share::Mix& mix = result.mix;
  Table table({{"job", Align::kLeft, true},
               {"lane", Align::kRight},
               {"state", Align::kRight},
               {"height", Align::kRight},
               {"alone", Align::kRight},
               {"iter/s", Align::kRight},
               {"waits", Align::kRight},
               {"", Align::kLeft}});
  for (std::size_t i = 0; i < mix.jobs.size(); ++i) {
    const share::Job& job = mix.jobs[i];
    table.Add({NameOf(job), mix.fits ? std::to_string(mix.lanes[i]) : "", FormatBytes(job.placement.state),
               FormatBytes(job.placement.height), FormatTime(job.alone),
               mix.fits ? fmt::format("{:.3f}", mix.together.jobs[i].iterations_per_second) : "",
               mix.fits ? Percent(mix.together.jobs[i].waited) : "",
               job.planned() ? "plan " + FormatTime(job.planned_time) : ""});
  }
  return "\n" + table.Render(terminal);
}

// A plot for each job, all to one scale.
std::string Memory(const share::Mix& mix, const Terminal& terminal) {
  const ShareSamples samples = SampleMemory(mix, static_cast<std::size_t>(std::max(20, terminal.width - 12)));
  if (samples.at.empty()) return "";
  Bytes top = 0;
  for (const std::vector<Bytes>& live : samples.live) top = std::max(top, *std::ranges::max_element(live));
  std::string out = "\nmemory of the lanes in use, over the last rounds\n";
  for (std::size_t i = 0; i < mix.jobs.size(); ++i) {
    const std::vector<std::string> lines = Plot(samples.live[i], kPlotHeight, terminal, top);
    for (std::size_t line = 0; line < lines.size(); ++line) {
      const std::string label = line == 0 ? FormatBytes(*std::ranges::max_element(samples.live[i])) : "";
      out += PadLeft(label, 10) + " " + lines[line] + "\n";
    }
    out += std::string(11, ' ') + Shorten(Printable(NameOf(mix.jobs[i])), terminal.width - 11, terminal.unicode) + "\n";
  }
  return out;
}

std::string Compared(const jobs::ShareResult& result, const Terminal& terminal) {
  if (result.compared.empty()) return "";
  const share::Mix& mix = result.mix;
  Table table({{"", Align::kLeft},
               {"round", Align::kRight},
               {"this is", Align::kRight},
               {"memory", Align::kRight},
               {.title = "", .wraps = true}});
  if (mix.fits) table.Add({"ebbtide", FormatTime(mix.together.round), "", FormatBytes(mix.peak), ""});
  for (const share::BaselineResult& baseline : result.compared) {
    const bool both = baseline.fits && mix.fits;
    table.Add({baseline.name, baseline.fits ? FormatTime(baseline.together.round) : "does not fit",
               both ? fmt::format("{:.2f}x", Ratio(baseline.together.round, mix.together.round)) : "",
               FormatBytes(baseline.memory), baseline.note});
  }
  return "\n" + table.Render(terminal);
}

}  // namespace

std::string ShareText(const jobs::ShareResult& result, const Terminal& terminal) {
  const share::Mix& mix = result.mix;
  std::vector<std::string> names;
  for (const share::Job& job : mix.jobs) names.push_back(NameOf(job));
  const std::string title = fmt::format("{} on {}", fmt::join(names, " + "), result.gpu);
  std::string out = Paint(Style::kBold, Shorten(Printable(title), terminal.width, terminal.unicode), terminal) + "\n\n";
  if (mix.fits) {
    out += Figures(result, terminal) + Jobs(result, terminal) + Memory(mix, terminal);
  } else {
    out += Paint(Style::kRed, "does not fit: ", terminal) + Printable(mix.reason) + "\n";
    if (!mix.jobs.empty()) out += Jobs(result, terminal);
  }
  return out + Compared(result, terminal);
}

}  // namespace ebbtide::report
