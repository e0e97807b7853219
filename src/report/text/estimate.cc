// The table of `ebbtide estimate`.
#include "report/text/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/units.h"
#include "device/context_range.h"
#include "report/estimate_timeline.h"
#include "report/text/plot.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace ebbtide::report {
namespace {

constexpr int kLabel = 16;
constexpr int kPlotHeight = 6;
constexpr std::size_t kTensorsShown = 6;
constexpr std::size_t kContributorsShown = 3;

double Share(Bytes part, Bytes whole) { return 100.0 * static_cast<double>(part) / static_cast<double>(whole); }

std::string Figure(std::string_view label, std::string_view text, const Terminal& terminal) {
  std::string out;
  for (const std::string& line : WrapNames(text, terminal.width - kLabel, terminal.unicode)) {
    out += PadRight(out.empty() ? label : "", kLabel) + line + "\n";
  }
  return out;
}

std::string MetaOf(const TrainingGraph& graph, const char* key) {
  const auto found = graph.meta.find(key);
  return found == graph.meta.end() ? "" : Printable(found->second);
}

// "resnet50  batch size 32, sgd, on rtx3060".
// "2.8 " of "pytorch-2.8".
std::string VersionOf(const std::string& framework) {
  const std::size_t at = framework.find('-');
  return at == std::string::npos ? "" : framework.substr(at + 1) + " ";
}

std::string Title(const jobs::EstimateResult& prediction, const Terminal& terminal) {
  std::string notes;
  if (const std::string batch = MetaOf(*prediction.graph, "batch_size"); !batch.empty()) {
    notes += "batch size " + batch + ", ";
  }
  if (const std::string optimizer = MetaOf(*prediction.graph, "optimizer"); !optimizer.empty()) {
    notes += (optimizer == "none" ? "no optimizer" : optimizer) + ", ";
  }
  const Framework framework = prediction.graph->framework;
  notes += framework == Framework::kMxnet        ? "MXNet on "
           : framework == Framework::kTensorflow ? "TensorFlow on "
                                                 : "PyTorch " + VersionOf(prediction.framework) + "on ";
  notes += Printable(prediction.options.gpu.name);
  if (!prediction.layout.IsPlain()) notes += ", one rank of " + parallel::Describe(prediction.layout);
  const std::string name =
      Shorten(Printable(prediction.model), std::max(10, terminal.width - Columns(notes) - 2), terminal.unicode);
  return Paint(Style::kBold, name, terminal) + "  " + Paint(Style::kDim, notes, terminal) + "\n\n";
}

// What the step does otherwise than plain training: "LoRA of rank 8, gradients of 4 batches summed".
std::string StepOf(const TrainingGraph& graph) {
  constexpr std::pair<const char*, const char*> kWords[] = {{"step", "{}"},
                                                            {"autocast", "autocast to {}"},
                                                            {"freeze", "{} frozen"},
                                                            {"lora", "LoRA of rank {}"},
                                                            {"accumulate", "gradients of {} batches summed"},
                                                            {"checkpoint", "{} recomputed"},
                                                            {"dtype", "weights of {}"},
                                                            {"quantize", "stored as {}"}};
  std::string out;
  for (const auto& [key, words] : kWords) {
    const std::string value = MetaOf(graph, key);
    if (!value.empty()) out += (out.empty() ? "" : ", ") + fmt::format(fmt::runtime(words), value);
  }
  return out;
}

// "52 is safe, 55 fits": of a job with a largest batch.
std::string LargestBatchText(const jobs::EstimateResult& prediction) {
  if (*prediction.largest_batch == 0) return "not even one sample fits";
  const std::int64_t safe = prediction.largest_safe_batch.value_or(0);
  return fmt::format("{}, {} fits", safe == 0 ? "none is safe" : WithSeparators(safe) + " is safe",
                     WithSeparators(*prediction.largest_batch));
}

std::string Verdict(const jobs::EstimateResult& prediction, const Terminal& terminal) {
  const estimate::Estimate& estimate = prediction.estimate;
  const std::string of = fmt::format("{} of {} ({:.0f} %)", FormatBytes(estimate.total()),
                                     FormatBytes(estimate.capacity), Share(estimate.total(), estimate.capacity));
  if (estimate.fits) {
    return Figure("fits", fmt::format("{}, {} to spare", of, FormatBytes(estimate.capacity - estimate.total())),
                  terminal);
  }
  std::string out = Paint(Style::kRed, PadRight("does not fit", kLabel), terminal) +
                    fmt::format("{}, lacks {}\n", of, FormatBytes(prediction.lacks));
  if (prediction.largest_batch) out += Figure("largest batch", LargestBatchText(prediction), terminal);
  std::string most;
  for (const jobs::Contribution& part : std::span(prediction.largest_first).first(kContributorsShown)) {
    most += fmt::format("{}{} {}", most.empty() ? "" : ", ", part.name, FormatBytes(part.bytes));
  }
  return out + Figure("most of it", most, terminal);
}

// "5.10 GiB, 4.20 GiB": of a pipeline, by stage.
std::string Stages(const jobs::EstimateResult& prediction, const Terminal& terminal) {
  std::string text;
  std::int64_t next = 0;
  for (const jobs::RankEstimate& rank : prediction.ranks) {
    if (rank.stage != next) continue;
    text += (text.empty() ? "" : ", ") + FormatBytes(rank.total);
    ++next;
  }
  return next < 2 ? "" : Figure("stages", text, terminal);
}

std::string Figures(const jobs::EstimateResult& prediction, const Terminal& terminal) {
  const estimate::Estimate& estimate = prediction.estimate;
  const bool safe_fits = prediction.safe.bytes <= estimate.capacity;
  std::string out = Verdict(prediction, terminal);
  out += Figure(
      "safe figure",
      fmt::format("{}, meant to be enough in {:.0f} of 100 cases{}", FormatBytes(prediction.safe.bytes),
                  100 * prediction.safe.probability, estimate.fits && !safe_fits ? ": more than this GPU has" : ""),
      terminal);
  const ContextRange range = ContextRangeOf(prediction.options.gpu);
  std::string context =
      fmt::format("{}, of which {} is loaded code", FormatBytes(estimate.context + estimate.loaded_code),
                  FormatBytes(estimate.loaded_code));
  if (range.least < range.most) {
    context +=
        fmt::format("; {} to {}, as it was not measured on this GPU", FormatBytes(range.least + estimate.loaded_code),
                    FormatBytes(range.most + estimate.loaded_code));
  }
  out += Figure(
      "peak reserved",
      fmt::format("{} in {}", FormatBytes(estimate.peak_reserved), PlaceText(estimate.at_peak, *prediction.graph)),
      terminal);
  out += Figure("peak allocated",
                fmt::format("{} in {}", FormatBytes(estimate.peak_allocated),
                            PlaceText(estimate.at_allocated_peak, *prediction.graph)),
                terminal);
  if (prediction.worst_routing) {
    const estimate::Estimate& worst = *prediction.worst_routing;
    out += Figure("experts",
                  worst.total() == estimate.total()
                      ? "tokens routed evenly; no routing takes more"
                      : fmt::format("tokens routed evenly; at worst {}{}", FormatBytes(worst.total()),
                                    worst.fits ? "" : ", which does not fit"),
                  terminal);
  }
  out += Figure("context", context, terminal);
  if (estimate.communication > 0) out += Figure("NCCL", FormatBytes(estimate.communication) + ", by rule", terminal);
  out += Stages(prediction, terminal);
  if (const std::string step = StepOf(*prediction.graph); !step.empty()) out += Figure("step", step, terminal);
  if (!prediction.not_counted.empty()) {
    out += Figure("not counted", Printable(fmt::format("{}", fmt::join(prediction.not_counted, ", "))), terminal);
  }
  for (const std::string& note : prediction.notes) out += Figure("note", Printable(note), terminal);
  return out;
}

std::string Breakdown(const jobs::EstimateResult& prediction, const Terminal& terminal) {
  Table table({{.title = "at the peak"},
               {.title = "bytes", .align = Align::kRight},
               {.title = "share", .align = Align::kRight},
               {.title = ""}});
  const int bar = std::clamp(terminal.width - 40, 0, 40);
  for (const jobs::Contribution& part : prediction.breakdown) {
    if (part.bytes == 0) continue;
    const double share = Share(part.bytes, prediction.estimate.total());
    const int blocks = static_cast<int>(share / 100 * bar + 0.5);
    std::string drawn;
    for (int i = 0; i < blocks; ++i) drawn += terminal.unicode ? "█" : "#";
    table.Add({part.name, FormatBytes(part.bytes), fmt::format("{:.1f} %", share), drawn});
  }
  table.Add({"total", FormatBytes(prediction.estimate.total()), "", ""});
  return "\n" + table.Render(terminal);
}

// "╵iteration 1  ╵iteration 2" under a plot of that many columns.
std::string MarkLine(const MemoryTimeline& timeline, std::size_t width, const Terminal& terminal) {
  const std::string_view tick = terminal.unicode ? "╵" : "|";
  std::string out;
  std::size_t filled = 0;
  for (std::size_t i = 1; i < timeline.marks.size(); ++i) {
    const auto column = [&](std::int64_t at) {
      return static_cast<std::size_t>(static_cast<double>(at) / static_cast<double>(timeline.events) *
                                      static_cast<double>(width));
    };
    const std::size_t begin = column(timeline.marks[i - 1].at);
    const std::size_t end = std::min(column(timeline.marks[i].at), width);
    if (begin < filled || end <= begin) continue;
    out += std::string(begin - filled, ' ');
    const std::string label = std::string(tick) + timeline.marks[i].label;
    const int room = static_cast<int>(end - begin);
    out += PadRight(Columns(label) < room ? label : std::string(tick), room);
    filled = end;
  }
  return out.substr(0, out.find_last_not_of(' ') + 1);
}

std::string OverTime(const jobs::EstimateResult& prediction, const Terminal& terminal) {
  const MemoryTimeline timeline = EstimateTimeline(prediction, /*named=*/false);
  const std::string top = FormatBytes(timeline.peak_allocated);
  const std::size_t width = static_cast<std::size_t>(std::max(10, terminal.width - Columns(top) - 1));
  std::vector<std::int64_t> values;
  for (const TimelineSample& sample : SampleTimeline(timeline, width)) values.push_back(sample.allocated());
  if (values.empty()) return "";
  const std::vector<std::string> lines = Plot(Stretch(values, width), kPlotHeight, terminal);
  std::string out = "\n" + Paint(Style::kBold, "allocated memory over the iterations", terminal) + "\n";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string mark = i == 0 ? top : i + 1 == lines.size() ? "0" : "";
    const std::string blocks = lines[i].substr(0, lines[i].find_last_not_of(' ') + 1);
    out += PadLeft(mark, Columns(top)) + " " + Paint(Style::kBlue, blocks, terminal) + "\n";
  }
  const std::string marks = MarkLine(timeline, width, terminal);
  if (!marks.empty()) out += PadLeft("", Columns(top) + 1) + Paint(Style::kDim, marks, terminal) + "\n";
  return out;
}

std::string Largest(const jobs::EstimateResult& prediction, const Terminal& terminal) {
  Table table({{.title = "largest at the peak", .shrinks = true},
               {.title = "shape"},
               {.title = "category"},
               {.title = "size", .align = Align::kRight}});
  for (const jobs::TensorAtPeak& tensor :
       std::span(prediction.largest_at_peak).first(std::min(kTensorsShown, prediction.largest_at_peak.size()))) {
    const std::string made = tensor.layer.empty() ? tensor.made_by : tensor.made_by + " of " + tensor.layer;
    table.Add({tensor.name.empty() ? made : tensor.name,
               fmt::format("{}", fmt::join(tensor.shape, terminal.unicode ? "×" : "x")), tensor.category,
               FormatBytes(tensor.bytes)});
  }
  return table.empty() ? "" : "\n" + table.Render(terminal);
}

}  // namespace

std::string EstimateText(const jobs::EstimateResult& prediction, const Terminal& terminal) {
  std::string out = Title(prediction, terminal) + Figures(prediction, terminal) + Breakdown(prediction, terminal);
  if (!prediction.estimate.timeline.requests.empty()) {
    out += OverTime(prediction, terminal) + Largest(prediction, terminal);
  }
  return out;
}

}  // namespace ebbtide::report
