// What the peak of an estimate consists of.
#include "jobs/peak.h"

#include <algorithm>

#include "graph/dtype.h"

namespace ebbtide::jobs {
namespace {

using estimate::Category;

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

std::vector<Contribution> BreakdownOf(const estimate::Estimate& estimate) {
  const estimate::Moment& full = estimate.at_allocated_peak;
  std::vector<Contribution> parts;
  for (std::size_t i = 0; i < estimate::kCategories; ++i) {
    parts.push_back({CategoryName(static_cast<Category>(i)), full.by_category[i]});
  }
  parts.push_back({"fragmentation", full.rounding});
  parts.push_back({"reservation", estimate.peak_reserved - full.requested() - full.rounding});
  if (estimate.communication > 0) parts.push_back({"NCCL", estimate.communication});
  parts.push_back({"context", estimate.context + estimate.loaded_code});
  return parts;
}

std::vector<Contribution> LargestFirst(std::vector<Contribution> parts) {
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return parts;
}

std::vector<TensorAtPeak> TensorsAtPeak(const estimate::Estimate& estimate, const TrainingGraph& graph,
                                        std::size_t count) {
  const std::int64_t peak = AllocatedPeakEvent(estimate.timeline);
  std::vector<const estimate::TimedRequest*> live;
  for (const estimate::TimedRequest& timed : estimate.timeline.requests) {
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

Bytes ReservedBeforeTraining(const estimate::Timeline& timeline) {
  if (timeline.iterations.empty()) return 0;
  const auto after =
      std::upper_bound(timeline.reserved.begin(), timeline.reserved.end(), timeline.iterations.front() - 1,
                       [](std::int64_t at, const auto& level) { return at < level.at; });
  return after == timeline.reserved.begin() ? 0 : std::prev(after)->reserved;
}

Bytes LackOf(const estimate::Estimate& estimate) {
  // A device gives memory in pieces, so that a job can fail on one that has a few bytes more than its total.
  return std::max(estimate.total() - estimate.capacity, alloc::DeviceMemory::kGranule);
}

}  // namespace ebbtide::jobs
