#include "report/replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "report/plot.h"
#include "report/table.h"
#include "report/text.h"

namespace ebbtide::report {
namespace {

constexpr std::size_t kSamples = 256;
constexpr int kPlotHeight = 5;

const alloc::TraceEvent* Failed(const ReplayReport& report) {
  if (report.result.failed_event < 0) return nullptr;
  return &report.trace.events[static_cast<std::size_t>(report.result.failed_event)];
}

std::string StreamName(const ReplayReport& report, alloc::StreamId stream) {
  return stream.valid() ? report.trace.streams[stream.index()] : "";
}

std::string Exactly(Bytes bytes) { return fmt::format("{} ({})", FormatBytes(bytes), WithSeparators(bytes)); }

std::string Share(Bytes part, Bytes whole) {
  if (whole <= 0) return "0 %";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string Title(const ReplayReport& report, const Terminal& terminal) {
  std::string notes = report.allocator;
  if (!report.options.empty()) notes += fmt::format(" ({})", report.options);
  if (!report.gpu.empty()) notes += " on " + report.gpu;
  if (report.capacity < kTooLarge) notes += fmt::format(", {} to have", FormatBytes(report.capacity));
  const std::string name = Shorten(Printable(report.trace.path), std::max(20, terminal.width - 2), terminal.unicode);
  notes = Printable(notes);
  const bool one_line = Columns(name) + 2 + Columns(notes) <= terminal.width;
  return Paint(Style::kBold, name, terminal) + (one_line ? "  " : "\n") + Paint(Style::kDim, notes, terminal) + "\n\n";
}

std::string Figures(const ReplayReport& report, const Terminal& terminal) {
  const alloc::ReplayResult& result = report.result;
  const alloc::Usage& usage = result.usage;
  Table table({{.title = ""}, {.title = "", .shrinks = true}});
  table.Add({"events", WithSeparators(static_cast<std::int64_t>(report.trace.events.size()))});
  table.Add({"peak requested", Exactly(result.requested_peak)});
  table.Add({"peak allocated", Exactly(usage.allocated_peak)});
  table.Add({"peak reserved", Exactly(usage.reserved_peak)});
  table.Add({"fragmentation", fmt::format("{} of the peak reserved was never requested",
                                          Share(usage.reserved_peak - result.requested_peak, usage.reserved_peak))});
  table.Add({"segments", fmt::format("{} taken from the device, {} given back",
                                     WithSeparators(usage.device_allocations), WithSeparators(usage.device_frees))});
  if (const alloc::TraceEvent* failed = Failed(report)) {
    table.Add({"out of memory",
               fmt::format("at {} {}: {} on stream {}{}", report.trace.place_name, failed->place,
                           FormatBytes(failed->bytes), StreamName(report, failed->stream),
                           usage.out_of_memory > 1 ? fmt::format(", and {} more", usage.out_of_memory - 1) : "")});
  }
  return table.Render(terminal);
}

std::string Comparison(const ReplayReport& report, const Terminal& terminal) {
  if (!report.result.recorded) return "";
  const alloc::RecordedDevice& recorded = *report.result.recorded;
  Table table({{.title = "against the recording"},
               {.title = "recorded", .align = Align::kRight},
               {.title = "replayed", .align = Align::kRight}});
  table.Add(
      {"peak reserved", WithSeparators(recorded.reserved_peak), WithSeparators(report.result.usage.reserved_peak)});
  table.Add({"segments", WithSeparators(static_cast<std::int64_t>(recorded.segments.size())),
             WithSeparators(static_cast<std::int64_t>(report.result.segments.size()))});
  table.Add({"of equal size", "", WithSeparators(recorded.equal_segments)});
  table.Add({"out of memory", recorded.out_of_memory ? "yes" : "no", report.result.out_of_memory ? "yes" : "no"});
  return "\n" + table.Render(terminal);
}

std::string MemoryPlot(const ReplayReport& report, const Terminal& terminal) {
  if (report.result.reserved.empty()) return "";
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
  plot("allocated over the trace", report.result.allocated);
  plot("reserved over the trace", report.result.reserved);
  return out;
}

}  // namespace

Json ReplayJson(const ReplayReport& report) {
  const alloc::ReplayResult& result = report.result;
  Json json = NewResult("replay");
  json["trace"] = report.trace.path;
  json["allocator"] = report.allocator;
  json["alloc_conf"] = report.options;
  json["gpu"] = report.gpu.empty() ? Json(nullptr) : Json(report.gpu);
  json["capacity_bytes"] = report.capacity < kTooLarge ? Json(report.capacity) : Json(nullptr);
  json["events"] = report.trace.events.size();
  json["oom"] = result.out_of_memory;
  json["ooms"] = result.usage.out_of_memory;
  json["failed_at"] = nullptr;
  if (const alloc::TraceEvent* failed = Failed(report)) {
    json["failed_at"] = {{report.trace.place_name, failed->place},
                         {"bytes", failed->bytes},
                         {"stream", StreamName(report, failed->stream)}};
  }
  json["peak_reserved_bytes"] = result.usage.reserved_peak;
  json["peak_allocated_bytes"] = result.usage.allocated_peak;
  json["peak_requested_bytes"] = result.requested_peak;
  json["segments"] = result.usage.device_allocations;
  json["segments_given_back"] = result.usage.device_frees;
  json["final_reserved_bytes"] = result.usage.reserved;
  json["final_allocated_bytes"] = result.usage.allocated;
  json["segment_bytes"] = result.segments;
  json["recorded"] = nullptr;
  if (result.recorded) {
    json["recorded"] = {{"oom", result.recorded->out_of_memory},
                        {"peak_reserved_bytes", result.recorded->reserved_peak},
                        {"segments", result.recorded->segments.size()},
                        {"equal_segments", result.recorded->equal_segments},
                        {"exact", result.recorded->segments == result.segments &&
                                      result.recorded->reserved_peak == result.usage.reserved_peak}};
  }
  json["reserved_bytes"] = SampleMaxima(result.reserved, kSamples);
  json["allocated_bytes"] = SampleMaxima(result.allocated, kSamples);
  return json;
}

std::string ReplayText(const ReplayReport& report, const Terminal& terminal) {
  return Title(report, terminal) + Figures(report, terminal) + MemoryPlot(report, terminal) +
         Comparison(report, terminal);
}

}  // namespace ebbtide::report
