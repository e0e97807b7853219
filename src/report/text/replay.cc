// Shows what an allocator took, when it ran out, and how that compares with the recording.
#include "report/text/replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "report/text/plot.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace ebbtide::report {
namespace {

using jobs::ReplayResult;

constexpr int kPlotHeight = 5;

std::string Exactly(Bytes bytes) { return fmt::format("{} ({})", FormatBytes(bytes), WithSeparators(bytes)); }

std::string Share(Bytes part, Bytes whole) {
  if (whole <= 0) return "0 %";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string Title(const ReplayResult& result, const Terminal& terminal) {
  std::string notes = result.allocator;
  if (!result.options.empty()) notes += fmt::format(" ({})", result.options);
  if (!result.gpu.empty()) notes += " on " + result.gpu;
  if (result.capacity < kTooLarge) notes += fmt::format(", {} to have", FormatBytes(result.capacity));
  const std::string name = Shorten(Printable(result.trace.path), std::max(20, terminal.width - 2), terminal.unicode);
  notes = Printable(notes);
  const bool one_line = Columns(name) + 2 + Columns(notes) <= terminal.width;
  return Paint(Style::kBold, name, terminal) + (one_line ? "  " : "\n") + Paint(Style::kDim, notes, terminal) + "\n\n";
}

std::string Figures(const ReplayResult& result, const Terminal& terminal) {
  const trace::Replayed& replayed = result.replayed;
  const alloc::Usage& usage = replayed.usage;
  Table table({{.title = ""}, {.title = "", .wraps = true}});
  table.Add({"events", WithSeparators(static_cast<std::int64_t>(result.trace.events.size()))});
  table.Add({"peak requested", Exactly(replayed.requested_peak)});
  table.Add({"peak allocated", Exactly(usage.allocated_peak)});
  table.Add({"peak reserved", Exactly(usage.reserved_peak)});
  table.Add({"fragmentation", fmt::format("{} of the peak reserved was never requested",
                                          Share(usage.reserved_peak - replayed.requested_peak, usage.reserved_peak))});
  table.Add({"segments", fmt::format("{} taken from the device, {} given back",
                                     WithSeparators(usage.device_allocations), WithSeparators(usage.device_frees))});
  if (const trace::TraceEvent* failed = result.failed()) {
    table.Add({"out of memory",
               fmt::format("at {} {}: {} on stream {}{}", result.trace.place_name, failed->place,
                           FormatBytes(failed->bytes), result.StreamName(failed->stream),
                           usage.out_of_memory > 1 ? fmt::format(", and {} more", usage.out_of_memory - 1) : "")});
  }
  return table.Render(terminal);
}

std::string Comparison(const ReplayResult& result, const Terminal& terminal) {
  if (!result.replayed.recorded) return "";
  const trace::RecordedDevice& recorded = *result.replayed.recorded;
  Table table({{.title = "against the recording"},
               {.title = "recorded", .align = Align::kRight},
               {.title = "replayed", .align = Align::kRight}});
  table.Add(
      {"peak reserved", WithSeparators(recorded.reserved_peak), WithSeparators(result.replayed.usage.reserved_peak)});
  table.Add({"segments", WithSeparators(static_cast<std::int64_t>(recorded.segments.size())),
             WithSeparators(static_cast<std::int64_t>(result.replayed.segments.size()))});
  table.Add({"of equal size", "", WithSeparators(recorded.equal_segments)});
  table.Add({"out of memory", recorded.out_of_memory ? "yes" : "no", result.replayed.out_of_memory ? "yes" : "no"});
  return "\n" + table.Render(terminal);
}

std::string MemoryPlot(const ReplayResult& result, const Terminal& terminal) {
  if (result.replayed.reserved.empty()) return "";
  std::string out;
  const auto plot = [&](std::string_view heading, const std::vector<Bytes>& series) {
    const std::string top = FormatBytes(*std::max_element(series.begin(), series.end()));
    const int label = Columns(top);
    const std::size_t width = static_cast<std::size_t>(std::max(10, terminal.width - label - 1));
    const std::vector<std::string> lines = Plot(Stretch(SampleMaxima(series, width), width), kPlotHeight, terminal);
    out += "\n" + Paint(Style::kBold, heading, terminal) + "\n";
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::string mark = i == 0 ? top : i + 1 == lines.size() ? "0" : "";
      const std::string blocks = lines[i].substr(0, lines[i].find_last_not_of(' ') + 1);
      out += PadLeft(mark, label) + " " + Paint(Style::kBlue, blocks, terminal) + "\n";
    }
  };
  plot("allocated over the trace", result.replayed.allocated);
  plot("reserved over the trace", result.replayed.reserved);
  return out;
}

}  // namespace

std::string ReplayText(const ReplayResult& result, const Terminal& terminal) {
  return Title(result, terminal) + Figures(result, terminal) + MemoryPlot(result, terminal) +
         Comparison(result, terminal);
}

}  // namespace ebbtide::report
