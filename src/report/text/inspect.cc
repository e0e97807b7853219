// The table of `ebbtide inspect`.
#include "report/text/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/units.h"
#include "graph/names.h"
#include "report/text/plot.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace ebbtide::report {
namespace {

constexpr std::size_t kKindsShown = 12;
constexpr int kPlotHeight = 5;
constexpr int kLabel = 20;  // columns of the labels of the figures at the top

std::int64_t Sum(const std::array<std::int64_t, kPhases>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::string Heading(std::string_view text, const Terminal& terminal) {
  return "\n" + Paint(Style::kBold, text, terminal) + "\n";
}

// A label and its text, broken at spaces where the terminal ends.
std::string Figure(std::string_view label, std::string_view text, const Terminal& terminal) {
  std::string out;
  for (const std::string& line : WrapNames(text, terminal.width - kLabel, terminal.unicode)) {
    out += PadRight(out.empty() ? label : "", kLabel) + line + "\n";
  }
  return out;
}

std::string BytesOf(const jobs::InspectResult& inspection, StorageKind kind) {
  return FormatBytes(inspection.summary.bytes_by_kind[static_cast<std::size_t>(kind)]);
}

// "resnet50  built in, batch size 32, ...", of what the graph's maker noted: where it comes from first, at most two
// lines of it.
std::string Title(const jobs::InspectResult& inspection, const Terminal& terminal) {
  const std::string name =
      Shorten(Printable(inspection.graph->name.empty() ? inspection.model : inspection.graph->name), terminal.width,
              terminal.unicode);
  const auto& meta = inspection.graph->meta;
  std::string notes;
  if (const auto source = meta.find("source"); source != meta.end()) notes = source->second;
  for (const auto& [key, value] : meta) {
    if (key == "source") continue;
    std::string label = key;
    std::replace(label.begin(), label.end(), '_', ' ');
    notes += fmt::format("{}{} {}", notes.empty() ? "" : ", ", label, value);
  }
  notes = Printable(notes);
  std::string out = Paint(Style::kBold, name, terminal);
  if (Columns(name) + 2 + Columns(notes) <= terminal.width) {
    return out + (notes.empty() ? "" : "  ") + Paint(Style::kDim, notes, terminal) + "\n\n";
  }
  std::vector<std::string> lines = Wrap(notes, terminal.width);
  if (lines.size() > 2) lines.resize(2);
  for (const std::string& line : lines) {
    out += "\n" + Paint(Style::kDim, Shorten(line, terminal.width, terminal.unicode), terminal);
  }
  return out + "\n\n";
}

std::string Figures(const jobs::InspectResult& inspection, const Terminal& terminal) {
  const Summary& summary = inspection.summary;
  std::string out;
  out += Figure("parameters", WithSeparators(summary.parameters), terminal);
  out += Figure("forward FLOPs", FormatCount(static_cast<double>(summary.forward_flops())), terminal);
  out += Figure("saved for backward",
                fmt::format("{} in {} storage{}", FormatBytes(summary.saved_bytes),
                            WithSeparators(inspection.saved_storages), inspection.saved_storages == 1 ? "" : "s"),
                terminal);
  out += Figure(
      "persistent",
      fmt::format("{}: parameters {}, buffers {}, optimizer state {}, inputs {}", FormatBytes(inspection.persistent),
                  BytesOf(inspection, StorageKind::kParameter), BytesOf(inspection, StorageKind::kBuffer),
                  BytesOf(inspection, StorageKind::kOptimizerState), BytesOf(inspection, StorageKind::kInput)),
      terminal);
  std::string peak = FormatBytes(summary.peak.bytes);
  if (summary.peak.at.valid()) {
    const Op& op = inspection.graph->op(summary.peak.at);
    peak += fmt::format(" at op {} of {}: {}", WithSeparators(summary.peak.at.value), WithSeparators(summary.ops),
                        Printable(op.kind));
    if (!op.layer.empty()) peak += " of " + Printable(op.layer);
    peak += fmt::format(" ({})", Name(op.phase));
  }
  out += Figure("peak live", peak, terminal);
  out += Figure("step",
                fmt::format("{} ops ({} forward, {} backward, {} update) on {} storages", WithSeparators(summary.ops),
                            WithSeparators(summary.ops_by_phase[0]), WithSeparators(summary.ops_by_phase[1]),
                            WithSeparators(summary.ops_by_phase[2]), WithSeparators(summary.storages)),
                terminal);
  return out;
}

// "forward   |backward   |update" under a plot of that many samples.
std::string PhaseLine(const jobs::InspectResult& inspection, std::size_t samples, const Terminal& terminal) {
  const std::string_view mark = terminal.unicode ? "╵" : "|";
  const std::size_t ops = inspection.live.size();
  std::string out;
  for (std::size_t phase = 0; phase < inspection.phase_begins.size(); ++phase) {
    const std::size_t end = phase + 1 < kPhases ? inspection.phase_begins[phase + 1] : ops;
    const std::size_t begin = std::min(inspection.phase_begins[phase], end);
    const int width = static_cast<int>(end * samples / ops) - static_cast<int>(begin * samples / ops);
    if (width <= 0) continue;
    const std::string label = std::string(mark) + std::string(Name(static_cast<Phase>(phase)));
    out += PadRight(Columns(label) <= width ? label : mark, width);
  }
  return out.substr(0, out.find_last_not_of(' ') + 1);
}

std::string LivePlot(const jobs::InspectResult& inspection, const Terminal& terminal) {
  if (inspection.live.empty()) return "";
  const std::string top = FormatBytes(inspection.summary.peak.bytes);
  const int label = Columns(top);
  const std::size_t width = static_cast<std::size_t>(std::max(10, terminal.width - label - 1));
  const std::vector<std::int64_t> samples = Stretch(SampleMaxima(inspection.live, width), width);
  const std::vector<std::string> lines = Plot(samples, kPlotHeight, terminal);
  std::string out = Heading("live memory over the step", terminal);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string mark = i == 0 ? top : i + 1 == lines.size() ? "0" : "";
    const std::string blocks = lines[i].substr(0, lines[i].find_last_not_of(' ') + 1);
    out += PadLeft(mark, label) + " " + Paint(Style::kBlue, blocks, terminal) + "\n";
  }
  const std::string phases = PhaseLine(inspection, samples.size(), terminal);
  if (!phases.empty()) out += PadLeft("", label + 1) + Paint(Style::kDim, phases, terminal) + "\n";
  return out;
}

std::string Count(std::int64_t count) { return count == 0 ? "" : WithSeparators(count); }
std::string Flops(std::int64_t flops) { return flops == 0 ? "" : FormatCount(static_cast<double>(flops)); }

std::string Kinds(const jobs::InspectResult& inspection, const Terminal& terminal) {
  std::vector<KindSummary> kinds = inspection.summary.kinds;
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const KindSummary& a, const KindSummary& b) { return Sum(a.ops) > Sum(b.ops); });
  Table table({{.title = "ops by kind", .shrinks = true},
               {.title = "count", .align = Align::kRight},
               {.title = "forward", .align = Align::kRight},
               {.title = "backward", .align = Align::kRight},
               {.title = "update", .align = Align::kRight},
               {.title = "FLOPs", .align = Align::kRight}});
  const auto add = [&](const KindSummary& kind) {
    table.Add({kind.kind, Count(Sum(kind.ops)), Count(kind.ops[0]), Count(kind.ops[1]), Count(kind.ops[2]),
               Flops(kind.flops)});
  };
  const std::size_t shown = kinds.size() <= kKindsShown + 1 ? kinds.size() : kKindsShown;
  std::for_each(kinds.begin(), kinds.begin() + static_cast<std::ptrdiff_t>(shown), add);
  if (shown < kinds.size()) {
    KindSummary rest;
    rest.kind = fmt::format("({} other kinds)", kinds.size() - shown);
    for (std::size_t i = shown; i < kinds.size(); ++i) {
      for (std::size_t phase = 0; phase < kPhases; ++phase) rest.ops[phase] += kinds[i].ops[phase];
      rest.flops += kinds[i].flops;
    }
    add(rest);
  }
  return table.empty() ? "" : "\n" + table.Render(terminal);
}

std::string Largest(const jobs::InspectResult& inspection, const Terminal& terminal) {
  Table table({{.title = "largest tensors", .shrinks = true},
               {.title = "shape"},
               {.title = "dtype"},
               {.title = "kind"},
               {.title = "size", .align = Align::kRight}});
  for (const jobs::LargeTensor& tensor : inspection.largest) {
    const StorageSummary& storage = tensor.storage;
    const std::string made_by = tensor.layer.empty() ? tensor.made_by : tensor.layer;
    table.Add({made_by.empty() ? storage.name : made_by,
               fmt::format("{}", fmt::join(storage.shape, terminal.unicode ? "×" : "x")), tensor.dtype,
               std::string(Name(storage.kind)) + (storage.saved ? ", saved" : ""), FormatBytes(storage.bytes)});
  }
  return table.empty() ? "" : "\n" + table.Render(terminal);
}

}  // namespace

std::string InspectText(const jobs::InspectResult& inspection, const Terminal& terminal) {
  return Title(inspection, terminal) + Figures(inspection, terminal) + LivePlot(inspection, terminal) +
         Kinds(inspection, terminal) + Largest(inspection, terminal);
}

}  // namespace ebbtide::report
