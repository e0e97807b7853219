// A prediction taken apart, and as JSON.
#include "report/estimate.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/dtype.h"

namespace ebbtide::report {
namespace {

using estimate::Category;

constexpr std::size_t kContributorsShown = 3;
constexpr std::size_t kTensorsListed = 10;
constexpr std::size_t kSamples = 256;

const char* NameOf(estimate::ZeroGrad position) {
  switch (position) {
    case estimate::ZeroGrad::kStart: return "start";
    case estimate::ZeroGrad::kBeforeBackward: return "before-backward";
    case estimate::ZeroGrad::kEnd: return "end";
  }
  return "";
}

Json PlaceOf(const estimate::Moment& moment, const TrainingGraph& graph) {
  Json place = {{"iteration", moment.iteration + 1}, {"op", nullptr}, {"kind", nullptr}, {"layer", nullptr}};
  if (!moment.op.valid()) return place;
  const Op& op = graph.op(moment.op);
  place["op"] = moment.op.value;
  place["kind"] = op.kind;
  place["layer"] = op.layer;
  return place;
}

// The event at which most was reserved for the first time.
// The first event after which most is requested; -1 where nothing is.
std::int64_t AllocatedPeakEvent(const estimate::Timeline& timeline) {
  std::vector<Bytes> change(static_cast<std::size_t>(timeline.events) + 1, 0);
  for (const estimate::TimedRequest& timed : timeline.requests) {
    change[static_cast<std::size_t>(timed.begin)] += timed.request.bytes;
    change[static_cast<std::size_t>(timed.end)] -= timed.request.bytes;
  }
  Bytes requested = 0, most = 0;
  std::int64_t peak = -1;
  for (std::size_t event = 0; event + 1 < change.size(); ++event) {
    requested += change[event];
    if (requested > most) most = requested, peak = static_cast<std::int64_t>(event);
  }
  return peak;
}

// What the model, and state that its optimizer makes early, take before the first iteration.
Bytes ReservedBeforeTraining(const estimate::Timeline& timeline) {
  if (timeline.iterations.empty()) return 0;
  const auto after =
      std::upper_bound(timeline.reserved.begin(), timeline.reserved.end(), timeline.iterations.front() - 1,
                       [](std::int64_t at, const auto& level) { return at < level.at; });
  return after == timeline.reserved.begin() ? 0 : std::prev(after)->reserved;
}

Json ContributionsJson(const std::vector<Contribution>& contributions) {
  Json list = Json::array();
  for (const Contribution& part : contributions) list.push_back({{"category", part.name}, {"bytes", part.bytes}});
  return list;
}

Json TensorsJson(const Prediction& prediction) {
  Json list = Json::array();
  for (const TensorAtPeak& tensor : TensorsAtPeak(prediction, kTensorsListed)) {
    list.push_back({{"bytes", tensor.bytes},
                    {"category", tensor.category},
                    {"name", tensor.name},
                    {"made_by", tensor.made_by},
                    {"layer", tensor.layer},
                    {"dtype", tensor.dtype},
                    {"shape", tensor.shape}});
  }
  return list;
}

}  // namespace

const char* CategoryName(Category category) {
  switch (category) {
    case Category::kParameter: return "Parameter";
    case Category::kBuffer: return "Buffer";
    case Category::kGradient: return "Gradient";
    case Category::kOptimizerState: return "Optstate";
    case Category::kInput: return "Other";
    case Category::kActivation: return "Activation";
    case Category::kTemporary: return "Temp";
    case Category::kWorkspace: return "workspace";
  }
  return "";
}

std::vector<Contribution> BreakdownOf(const Prediction& prediction) {
  const estimate::Estimate& estimate = prediction.estimate;
  const estimate::Moment& full = estimate.at_allocated_peak;
  std::vector<Contribution> parts;
  for (std::size_t i = 0; i < estimate::kCategories; ++i) {
    parts.push_back({CategoryName(static_cast<Category>(i)), full.by_category[i]});
  }
  parts.push_back({"fragmentation", full.rounding});
  parts.push_back({"reservation", estimate.peak_reserved - full.requested() - full.rounding});
  parts.push_back({"context", estimate.context + estimate.loaded_code});
  return parts;
}

std::vector<Contribution> LargestOf(const Prediction& prediction, std::size_t count) {
  std::vector<Contribution> parts = BreakdownOf(prediction);
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  parts.resize(std::min(count, parts.size()));
  return parts;
}

Bytes LackOf(const estimate::Estimate& estimate) {
  // A device gives memory in pieces, so that a job can fail on one that has a few bytes more than its total.
  return std::max(estimate.total() - estimate.capacity, alloc::DeviceMemory::kGranule);
}

std::vector<TensorAtPeak> TensorsAtPeak(const Prediction& prediction, std::size_t count) {
  const TrainingGraph& graph = *prediction.graph;
  const std::int64_t peak = AllocatedPeakEvent(prediction.estimate.timeline);
  std::vector<const estimate::TimedRequest*> live;
  for (const estimate::TimedRequest& timed : prediction.estimate.timeline.requests) {
    if (timed.begin <= peak && peak < timed.end) live.push_back(&timed);
  }
  const std::size_t shown = std::min(count, live.size());
  std::partial_sort(live.begin(), live.begin() + static_cast<std::ptrdiff_t>(shown), live.end(), [](auto* a, auto* b) {
    return a->request.bytes != b->request.bytes ? a->request.bytes > b->request.bytes : a->begin < b->begin;
  });
  std::vector<TensorAtPeak> tensors;
  for (std::size_t i = 0; i < shown; ++i) {
    const estimate::Request& request = live[i]->request;
    TensorAtPeak tensor;
    tensor.bytes = request.bytes;
    tensor.category = CategoryName(request.category);
    if (request.op.valid()) {
      tensor.made_by = graph.op(request.op).kind;
      tensor.layer = graph.op(request.op).layer;
    }
    if (request.storage.valid()) {
      tensor.name = graph.storage(request.storage).name;
      const auto first = std::find_if(graph.tensors.begin(), graph.tensors.end(),
                                      [&](const Tensor& t) { return t.storage == request.storage; });
      if (first != graph.tensors.end()) {
        tensor.dtype = Name(first->dtype);
        tensor.shape = first->shape;
      }
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Json EstimateJson(const Prediction& prediction) {
  const estimate::Estimate& estimate = prediction.estimate;
  const TrainingGraph& graph = *prediction.graph;
  Json result = NewResult("estimate");
  result["model"] = prediction.model;
  result["name"] = graph.name;
  result["meta"] = graph.meta;
  result["gpu"] = prediction.gpu->name;
  const auto framework = prediction.graph->meta.find("framework");
  const bool is_other = framework != prediction.graph->meta.end() && (framework->second == "mxnet" || framework->second == "tensorflow");
  result["framework"] = is_other ? framework->second : "pytorch";
  result["zero_grad"] = NameOf(prediction.training.zero_grad);
  result["iterations"] = prediction.training.iterations;
  result["fits"] = estimate.fits;
  result["peak_reserved_bytes"] = estimate.peak_reserved;
  result["peak_allocated_bytes"] = estimate.peak_allocated;
  result["reserved_before_training_bytes"] = ReservedBeforeTraining(estimate.timeline);
  result["total_bytes"] = estimate.total();
  result["safe_bytes"] = prediction.safe.bytes;
  result["safe_layout_bytes"] = prediction.safe.layout_margin;
  result["safe_varying_bytes"] = prediction.safe.varying_margin;
  result["safe_probability"] = prediction.safe.probability;
  result["safe_fits"] = prediction.safe.bytes <= estimate.capacity;
  result["context_bytes"] = estimate.context;
  result["loaded_code_bytes"] = estimate.loaded_code;
  result["capacity_bytes"] = estimate.capacity;
  result["lacks_bytes"] = estimate.fits ? 0 : LackOf(estimate);
  result["largest_batch"] = nullptr;
  if (prediction.largest_batch) result["largest_batch"] = *prediction.largest_batch;
  result["largest_contributors"] = ContributionsJson(LargestOf(prediction, kContributorsShown));
  Json breakdown = Json::object();
  for (const Contribution& part : BreakdownOf(prediction)) breakdown[part.name] = part.bytes;
  result["breakdown"] = breakdown;
  result["peak_at"] = PlaceOf(estimate.at_peak, graph);
  result["peak_allocated_at"] = PlaceOf(estimate.at_allocated_peak, graph);
  result["segments"] = estimate.device_allocations;
  result["largest_at_peak"] = TensorsJson(prediction);
  Json allocated = Json::array(), reserved = Json::array();
  for (const TimelineSample& sample : SampleTimeline(EstimateTimeline(prediction), kSamples)) {
    allocated.push_back(sample.allocated());
    reserved.push_back(sample.reserved);
  }
  result["allocated_over_time"] = allocated;
  result["reserved_over_time"] = reserved;
  result["notes"] = prediction.notes;
  return result;
}

}  // namespace ebbtide::report
