// A prediction as a timeline.
#include "report/estimate_timeline.h"

#include <fmt/format.h>

#include "report/text/text.h"

namespace ebbtide::report {
namespace {

using estimate::Category;

// What a library keeps for good is Other, as in a recording.
MemoryCategory CategoryOf(const estimate::TimedRequest& timed, std::int64_t events) {
  switch (timed.request.category) {
    case Category::kParameter: return MemoryCategory::kParameter;
    case Category::kBuffer: return MemoryCategory::kBuffer;
    case Category::kGradient: return MemoryCategory::kGradient;
    case Category::kOptimizerState: return MemoryCategory::kOptstate;
    case Category::kInput: return MemoryCategory::kOther;
    case Category::kActivation: return MemoryCategory::kActivation;
    case Category::kTemporary: return MemoryCategory::kTemp;
    case Category::kWorkspace: return timed.end == events ? MemoryCategory::kOther : MemoryCategory::kTemp;
  }
  return MemoryCategory::kOther;
}

// Texts for storages and ops, each once.
class Names {
 public:
  Names(const TrainingGraph& graph, std::vector<std::string>& texts)
      : graph_(graph), texts_(texts), of_storages_(graph.storages.size(), -1), of_ops_(graph.ops.size(), -1) {}

  int Of(const estimate::Request& request) {
    if (request.storage.valid() && !graph_.storage(request.storage).name.empty()) {
      return Once(of_storages_[request.storage.index()], graph_.storage(request.storage).name);
    }
    if (!request.op.valid()) return -1;
    const Op& op = graph_.op(request.op);
    return Once(of_ops_[request.op.index()], op.layer.empty() ? op.kind : op.kind + " of " + op.layer);
  }

 private:
  int Once(int& known, const std::string& text) {
    if (known < 0) {
      known = static_cast<int>(texts_.size());
      texts_.push_back(text);
    }
    return known;
  }

  const TrainingGraph& graph_;
  std::vector<std::string>& texts_;
  std::vector<int> of_storages_, of_ops_;
};

About AboutOf(const jobs::EstimateResult& prediction) {
  const DeviceProfile& gpu = prediction.options.gpu;
  const estimate::Estimate& estimate = prediction.estimate;
  About about;
  AddStepFacts(about, prediction.model, *prediction.graph);
  about.Add("GPU", fmt::format("{}, {}", gpu.name, FormatBytes(estimate.capacity)));
  about.Add("safe figure", fmt::format("{}, meant to be enough in {:.0f} of 100 cases",
                                       FormatBytes(prediction.safe.bytes), 100 * prediction.safe.probability));
  const bool safe = prediction.safe.bytes <= estimate.capacity;
  about.verdict = !estimate.fits ? Verdict::kBad : safe ? Verdict::kGood : Verdict::kWarning;
  if (!estimate.fits) {
    about.says = fmt::format("Does not fit: it lacks {}", FormatBytes(prediction.lacks));
  } else {
    about.says = safe ? "Fits, and so does the safe figure" : "May fit: the safe figure does not";
  }
  return about;
}

}  // namespace

std::string PlaceText(const estimate::Moment& moment, const TrainingGraph& graph) {
  std::string place = fmt::format("iteration {}", moment.iteration + 1);
  if (!moment.op.valid()) return place;
  const Op& op = graph.op(moment.op);
  place += ", " + Printable(op.kind);
  if (!op.layer.empty()) place += " of " + Printable(op.layer);
  return place;
}

MemoryTimeline EstimateTimeline(const jobs::EstimateResult& prediction, bool named) {
  const estimate::Estimate& estimate = prediction.estimate;
  const TrainingGraph& graph = *prediction.graph;
  MemoryTimeline timeline;
  timeline.title = prediction.model;
  timeline.subtitle = "predicted for " + prediction.options.gpu.name;
  timeline.about = AboutOf(prediction);
  timeline.predicted = true;
  timeline.capacity = estimate.capacity;
  timeline.context = estimate.context + estimate.loaded_code;
  timeline.peak_reserved = estimate.peak_reserved;
  timeline.peak_allocated = estimate.peak_allocated;
  timeline.total = estimate.total();
  timeline.reserved_place = PlaceText(estimate.at_peak, graph);
  timeline.allocated_place = PlaceText(estimate.at_allocated_peak, graph);
  timeline.events = estimate.timeline.events;
  for (const std::string& left_out : prediction.not_counted) timeline.notes.push_back("not counted: " + left_out);
  timeline.notes.insert(timeline.notes.end(), prediction.notes.begin(), prediction.notes.end());
  Names names(graph, timeline.texts);
  timeline.allocations.reserve(estimate.timeline.requests.size());
  for (const estimate::TimedRequest& timed : estimate.timeline.requests) {
    constexpr Bytes kUnit = 512;  // to which PyTorch rounds requests
    timeline.allocations.push_back({.begin = timed.begin,
                                    .end = timed.end,
                                    .bytes = (timed.request.bytes + kUnit - 1) / kUnit * kUnit,
                                    .category = CategoryOf(timed, timeline.events),
                                    .name = named ? names.Of(timed.request) : -1});
  }
  for (const estimate::Level& level : estimate.timeline.reserved) {
    timeline.reserved.push_back({level.at, level.reserved});
  }
  // A mark is where its part ends.
  const std::vector<std::int64_t>& begins = estimate.timeline.iterations;
  if (!begins.empty()) timeline.marks.push_back({begins.front(), "start"});
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const std::int64_t end = i + 1 < begins.size() ? begins[i + 1] : timeline.events;
    timeline.marks.push_back({end, fmt::format("iteration {}", i + 1)});
  }
  if (!estimate.fits) {
    timeline.failures.push_back(fmt::format("does not fit {}: it lacks {}; shown is a device that is large enough",
                                            prediction.options.gpu.name, FormatBytes(prediction.lacks)));
  }
  return timeline;
}

}  // namespace ebbtide::report
