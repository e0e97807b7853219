// The table of `ebbtide estimate`, and the prediction as a timeline.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "report/estimate.h"
#include "report/plot.h"
#include "report/table.h"
#include "report/text.h"

namespace ebbtide::report {
namespace {

using estimate::Category;

constexpr int kLabel = 18;
constexpr int kPlotHeight = 5;
constexpr std::size_t kShown = 5;

MemoryCategory PageCategory(Category category) {
  switch (category) {
    case Category::kParameter: return MemoryCategory::kParameter;
    case Category::kBuffer: return MemoryCategory::kBuffer;
    case Category::kGradient: return MemoryCategory::kGradient;
    case Category::kOptimizerState: return MemoryCategory::kOptstate;
    case Category::kInput: return MemoryCategory::kOther;
    case Category::kActivation: return MemoryCategory::kActivation;
    case Category::kTemporary:
    case Category::kWorkspace: return MemoryCategory::kTemp;
  }
  return MemoryCategory::kOther;
}

std::string Figure(std::string_view label, std::string_view text) {
  return PadRight(label, kLabel) + std::string(text) + "\n";
}

std::string PlaceOf(const estimate::Moment& moment, const TrainingGraph& graph) {
  std::string place = fmt::format("iteration {}", moment.iteration + 1);
  if (!moment.op.valid()) return place;
  const Op& op = graph.op(moment.op);
  place += ", " + Printable(op.kind);
  if (!op.layer.empty()) place += " of " + Printable(op.layer);
  return place;
}

std::string Breakdown(const Prediction& prediction, const Terminal& terminal) {
  const estimate::Estimate& estimate = prediction.estimate;
  Table table({{.title = "at the peak"}, {.title = "", .align = Align::kRight}, {.title = "", .align = Align::kRight}});
  const Json breakdown = EstimateJson(prediction)["breakdown"];
  for (const auto& [name, bytes] : breakdown.items()) {
    const Bytes value = bytes.get<Bytes>();
    if (value == 0) continue;
    table.Add({name, FormatBytes(value),
               fmt::format("{:.1f} %", 100.0 * static_cast<double>(value) / static_cast<double>(estimate.total()))});
  }
  return "\n" + table.Render(terminal);
}

std::string OverTime(const Prediction& prediction, const Terminal& terminal) {
  const MemoryTimeline timeline = EstimateTimeline(prediction);
  const std::string top = FormatBytes(timeline.peak_allocated);
  const std::size_t width = static_cast<std::size_t>(std::max(10, terminal.width - Columns(top) - 1));
  std::vector<std::int64_t> values;
  for (const TimelineSample& sample : SampleTimeline(timeline, width)) values.push_back(sample.allocated());
  if (values.empty()) return "";
  const std::vector<std::string> lines = Plot(Stretch(values, width), kPlotHeight, terminal);
  std::string out = "\n" + Paint(Style::kBold, "allocated over the iterations", terminal) + "\n";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string mark = i == 0 ? top : i + 1 == lines.size() ? "0" : "";
    out += PadLeft(mark, Columns(top)) + " " + Paint(Style::kBlue, lines[i], terminal) + "\n";
  }
  return out;
}

}  // namespace

std::string EstimateText(const Prediction& prediction, const Terminal& terminal) {
  const estimate::Estimate& estimate = prediction.estimate;
  const double share = static_cast<double>(estimate.total()) / static_cast<double>(estimate.capacity);
  std::string out =
      Paint(Style::kBold, Printable(prediction.model), terminal) + "  on " + prediction.gpu->name + "\n\n";
  out += Figure("total", fmt::format("{}, {:.0f} % of the GPU: {}", FormatBytes(estimate.total()), 100 * share,
                                     estimate.fits ? "fits" : "does not fit"));
  out += Figure("peak reserved", fmt::format("{} ({})", FormatBytes(estimate.peak_reserved),
                                             PlaceOf(estimate.at_peak, *prediction.graph)));
  out += Figure("peak allocated", fmt::format("{} ({})", FormatBytes(estimate.peak_allocated),
                                              PlaceOf(estimate.at_allocated_peak, *prediction.graph)));
  out += Breakdown(prediction, terminal);
  if (!estimate.timeline.requests.empty()) out += OverTime(prediction, terminal);
  return out;
}

MemoryTimeline EstimateTimeline(const Prediction& prediction) {
  const estimate::Estimate& estimate = prediction.estimate;
  const TrainingGraph& graph = *prediction.graph;
  MemoryTimeline timeline;
  timeline.title = prediction.model;
  timeline.subtitle = "predicted for " + prediction.gpu->name;
  timeline.predicted = true;
  timeline.capacity = estimate.capacity;
  timeline.context = estimate.context + estimate.loaded_code;
  timeline.peak_reserved = estimate.peak_reserved;
  timeline.peak_allocated = estimate.peak_allocated;
  timeline.total = estimate.total();
  timeline.reserved_place = PlaceOf(estimate.at_peak, graph);
  timeline.allocated_place = PlaceOf(estimate.at_allocated_peak, graph);
  timeline.events = estimate.timeline.events;
  const auto text = [&timeline](const std::string& words) {
    timeline.texts.push_back(words);
    return static_cast<int>(timeline.texts.size()) - 1;
  };
  std::vector<int> op_texts(graph.ops.size(), -1);
  for (const estimate::TimedRequest& timed : estimate.timeline.requests) {
    TimedAllocation allocation{timed.begin, timed.end, timed.request.bytes, PageCategory(timed.request.category)};
    if (const OpId op = timed.request.op; op.valid()) {
      int& known = op_texts[op.index()];
      if (known < 0) {
        const Op& made_by = graph.op(op);
        known = text(made_by.layer.empty() ? made_by.kind : made_by.kind + " of " + made_by.layer);
      }
      allocation.name = known;
    } else if (timed.request.storage.valid()) {
      allocation.name = text(graph.storage(timed.request.storage).name);
    }
    timeline.allocations.push_back(allocation);
  }
  for (const estimate::Level& level : estimate.timeline.reserved) {
    timeline.reserved.push_back({level.at, level.reserved});
  }
  for (std::size_t i = 0; i < estimate.timeline.iterations.size(); ++i) {
    timeline.marks.push_back({estimate.timeline.iterations[i], fmt::format("iteration {}", i + 1)});
  }
  if (!estimate.fits) timeline.failures.push_back("does not fit");
  return timeline;
}

}  // namespace ebbtide::report
