// What a training step computes, saves and holds.
#include "jobs/inspect.h"

#include <algorithm>

#include "device/op_time.h"
#include "graph/dtype.h"
#include "graph/liveness.h"
#include "graph/names.h"

namespace ebbtide::jobs {
namespace {

constexpr std::size_t kLargest = 10;

std::vector<LargeTensor> Describe(const std::vector<StorageSummary>& storages, const TrainingGraph& graph) {
  std::vector<LargeTensor> out;
  for (const StorageSummary& storage : storages) {
    const auto first = std::find_if(graph.tensors.begin(), graph.tensors.end(),
                                    [&](const Tensor& tensor) { return tensor.storage == storage.storage; });
    LargeTensor& tensor = out.emplace_back();
    tensor.storage = storage;
    if (first != graph.tensors.end()) tensor.dtype = Name(first->dtype);
    if (storage.producer.valid()) {
      tensor.made_by = graph.op(storage.producer).kind;
      tensor.layer = graph.op(storage.producer).layer;
    }
  }
  return out;
}

std::vector<std::size_t> PhaseBegins(const std::vector<Op>& ops) {
  std::vector<std::size_t> begins(kPhases, ops.size());
  Phase last = Phase::kForward;
  for (std::size_t i = ops.size(); i-- > 0;) begins[static_cast<std::size_t>(ops[i].phase)] = i;
  for (const Op& op : ops) {
    if (op.phase < last) return {};
    last = op.phase;
  }
  return begins;
}

std::shared_ptr<const TrainingGraph> WithTimes(const TrainingGraph& graph, const DeviceProfile& gpu) {
  auto timed = std::make_shared<TrainingGraph>(graph);
  const std::vector<Nanos> times = OpTimes(graph, gpu);
  for (std::size_t i = 0; i < times.size(); ++i) timed->ops[i].time = times[i];
  return timed;
}

}  // namespace

Result<InspectResult> Inspect(const InspectRequest& request, const JobContext& context) {
  InspectResult out;
  out.model = request.model.model;
  EBB_ASSIGN_OR_RETURN(out.graph, LoadModel(request.model, context));
  if (request.gpu) out.graph = WithTimes(*out.graph, *request.gpu);
  const TrainingGraph& graph = *out.graph;
  out.summary = Summarize(graph, kLargest);
  out.largest = Describe(out.summary.largest, graph);
  out.live = LiveBytes(graph, ComputeLiveness(graph));
  out.phase_begins = PhaseBegins(graph.ops);
  const std::vector<bool> saved = SavedForBackward(graph);
  out.saved_storages = std::count(saved.begin(), saved.end(), true);
  for (std::size_t i = 0; i < kStorageKinds; ++i) {
    if (IsPersistent(static_cast<StorageKind>(i))) out.persistent += out.summary.bytes_by_kind[i];
  }
  return out;
}

}  // namespace ebbtide::jobs
