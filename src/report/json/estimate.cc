// `ebbtide estimate` as JSON.
#include "report/json/estimate.h"

#include "device/context_range.h"
#include "graph/names.h"
#include "report/about.h"
#include "report/estimate_timeline.h"

namespace ebbtide::report {
namespace {

constexpr std::size_t kContributorsShown = 3;
constexpr std::size_t kSamples = 256;

Json PlaceOf(const estimate::Moment& moment, const TrainingGraph& graph) {
  Json place = {{"iteration", moment.iteration + 1}, {"op", nullptr}, {"kind", nullptr}, {"layer", nullptr}};
  if (!moment.op.valid()) return place;
  const Op& op = graph.op(moment.op);
  place["op"] = moment.op.value;
  place["kind"] = op.kind;
  place["layer"] = op.layer;
  return place;
}

Json ContributionsJson(const std::vector<jobs::Contribution>& contributions, std::size_t most) {
  Json list = Json::array();
  for (const jobs::Contribution& part : contributions) {
    if (list.size() < most) list.push_back({{"category", part.name}, {"bytes", part.bytes}});
  }
  return list;
}

Json TensorsJson(const std::vector<jobs::TensorAtPeak>& tensors) {
  Json list = Json::array();
  for (const jobs::TensorAtPeak& tensor : tensors) {
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

Json EstimateJson(const jobs::EstimateResult& prediction) {
  const estimate::Estimate& estimate = prediction.estimate;
  const TrainingGraph& graph = *prediction.graph;
  Json result = NewResult("estimate");
  result["model"] = prediction.model;
  result["name"] = graph.name;
  result["meta"] = graph.meta;
  result["dtype"] = DtypeText(graph);
  result["gpu"] = prediction.options.gpu.name;
  result["framework"] = Name(graph.framework == Framework::kNone ? Framework::kPytorch : graph.framework);
  result["framework_version"] = prediction.framework;
  result["zero_grad"] = jobs::Name(prediction.options.training.zero_grad);
  result["iterations"] = prediction.options.training.iterations;
  result["cudnn_benchmark"] = prediction.options.training.cudnn_benchmark;
  if (!prediction.layout.IsPlain()) {
    result["layout"] = parallel::Describe(prediction.layout);
    result["ranks"] = Json::array();
    for (std::size_t rank = 0; rank < prediction.ranks.size(); ++rank) {
      const jobs::RankEstimate& figures = prediction.ranks[rank];
      result["ranks"].push_back({{"rank", rank},
                                 {"stage", figures.stage},
                                 {"peak_reserved_bytes", figures.peak_reserved},
                                 {"peak_allocated_bytes", figures.peak_allocated},
                                 {"total_bytes", figures.total}});
    }
  }
  result["fits"] = estimate.fits;
  result["peak_reserved_bytes"] = estimate.peak_reserved;
  result["peak_allocated_bytes"] = estimate.peak_allocated;
  result["end_allocated_bytes"] = estimate.end_allocated;
  result["reserved_before_training_bytes"] = prediction.reserved_before_training;
  result["total_bytes"] = estimate.total();
  result["safe_bytes"] = prediction.safe.bytes;
  result["safe_layout_bytes"] = prediction.safe.layout_margin;
  result["safe_varying_bytes"] = prediction.safe.varying_margin;
  result["safe_context_bytes"] = prediction.safe.context_margin;
  result["safe_probability"] = prediction.safe.probability;
  result["safe_fits"] = prediction.safe.bytes <= estimate.capacity;
  result["context_bytes"] = estimate.context;
  result["context_least_bytes"] = ContextRangeOf(prediction.options.gpu).least;
  result["context_most_bytes"] = ContextRangeOf(prediction.options.gpu).most;
  result["loaded_code_bytes"] = estimate.loaded_code;
  if (!prediction.layout.IsPlain()) result["nccl_bytes"] = estimate.communication;
  result["capacity_bytes"] = estimate.capacity;
  result["lacks_bytes"] = prediction.lacks;
  result["largest_batch"] = nullptr;
  if (prediction.largest_batch) result["largest_batch"] = *prediction.largest_batch;
  result["largest_safe_batch"] = nullptr;
  if (prediction.largest_safe_batch) result["largest_safe_batch"] = *prediction.largest_safe_batch;
  if (prediction.worst_routing) {
    const estimate::Estimate& worst = *prediction.worst_routing;
    result["worst_routing"] = {{"fits", worst.fits},
                               {"peak_reserved_bytes", worst.peak_reserved},
                               {"peak_allocated_bytes", worst.peak_allocated},
                               {"total_bytes", worst.total()}};
  }
  result["largest_contributors"] = ContributionsJson(prediction.largest_first, kContributorsShown);
  Json breakdown = Json::object();
  for (const jobs::Contribution& part : prediction.breakdown) breakdown[part.name] = part.bytes;
  result["breakdown"] = breakdown;
  result["peak_at"] = PlaceOf(estimate.at_peak, graph);
  result["peak_allocated_at"] = PlaceOf(estimate.at_allocated_peak, graph);
  result["segments"] = estimate.device_allocations;
  result["largest_at_peak"] = TensorsJson(prediction.largest_at_peak);
  Json allocated = Json::array(), reserved = Json::array();
  for (const TimelineSample& sample : SampleTimeline(EstimateTimeline(prediction, /*named=*/false), kSamples)) {
    allocated.push_back(sample.allocated());
    reserved.push_back(sample.reserved);
  }
  result["allocated_over_time"] = allocated;
  result["reserved_over_time"] = reserved;
  result["not_counted"] = prediction.not_counted;
  result["notes"] = prediction.notes;
  return result;
}

}  // namespace ebbtide::report
