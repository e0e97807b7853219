#include "report/estimate.h"

#include <fmt/format.h>

namespace ebbtide::report {
namespace {

using estimate::Category;

// As torch's MemTracker has them.
const char* NameOf(Category category) {
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

Json PlaceOf(const estimate::Moment& moment, const TrainingGraph& graph) {
  Json place = {{"iteration", moment.iteration + 1}};
  if (!moment.op.valid()) return place;
  const Op& op = graph.op(moment.op);
  place["op"] = moment.op.value;
  place["kind"] = op.kind;
  place["layer"] = op.layer;
  return place;
}

}  // namespace

Json EstimateJson(const Prediction& prediction) {
  const estimate::Estimate& estimate = prediction.estimate;
  Json result = NewResult("estimate");
  result["model"] = prediction.model;
  result["gpu"] = prediction.gpu->name;
  result["fits"] = estimate.fits;
  result["peak_reserved_bytes"] = estimate.peak_reserved;
  result["peak_allocated_bytes"] = estimate.peak_allocated;
  result["total_bytes"] = estimate.total();
  result["context_bytes"] = estimate.context;
  result["capacity_bytes"] = estimate.capacity;
  Json breakdown = Json::object();
  for (std::size_t i = 0; i < estimate::kCategories; ++i) {
    breakdown[NameOf(static_cast<Category>(i))] = estimate.at_peak.by_category[i];
  }
  breakdown["fragmentation"] = estimate.at_peak.rounding;
  breakdown["reservation"] = estimate.at_peak.cached;
  breakdown["context"] = estimate.context + estimate.loaded_code;
  result["breakdown"] = breakdown;
  result["peak_at"] = PlaceOf(estimate.at_peak, *prediction.graph);
  result["peak_allocated_at"] = PlaceOf(estimate.at_allocated_peak, *prediction.graph);
  result["segments"] = estimate.device_allocations;
  return result;
}

}  // namespace ebbtide::report
