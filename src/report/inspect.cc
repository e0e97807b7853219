#include "report/inspect.h"

#include <algorithm>

#include "graph/dtype.h"
#include "graph/json.h"
#include "graph/liveness.h"
#include "report/plot.h"

namespace ebbtide::report {
namespace {

constexpr std::size_t kLargest = 10;
constexpr std::size_t kLiveSamples = 256;

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

Json ByPhase(const std::array<std::int64_t, kPhases>& counts) {
  Json out = Json::object();
  for (std::size_t i = 0; i < kPhases; ++i) out[std::string(Name(static_cast<Phase>(i)))] = counts[i];
  return out;
}

Json OpJson(const Inspection& inspection) {
  if (!inspection.summary.peak.at.valid()) return nullptr;
  return {{"op", inspection.summary.peak.at.value},
          {"kind", inspection.peak_op.kind},
          {"phase", Name(inspection.peak_op.phase)},
          {"layer", inspection.peak_op.layer}};
}

Json LargestJson(const LargeTensor& tensor) {
  return {{"storage", tensor.storage.storage.value},
          {"bytes", tensor.storage.bytes},
          {"kind", Name(tensor.storage.kind)},
          {"dtype", tensor.dtype},
          {"shape", tensor.storage.shape},
          {"name", tensor.storage.name},
          {"made_by", tensor.made_by},
          {"layer", tensor.layer},
          {"saved", tensor.storage.saved}};
}

}  // namespace

Inspection Inspect(const TrainingGraph& graph, const std::string& model) {
  Inspection out;
  out.model = model;
  out.name = graph.name;
  out.meta = graph.meta;
  out.summary = Summarize(graph, kLargest);
  out.largest = Describe(out.summary.largest, graph);
  out.live = LiveBytes(graph, ComputeLiveness(graph));
  out.phase_begins = PhaseBegins(graph.ops);
  const std::vector<bool> saved = SavedForBackward(graph);
  out.saved_storages = std::count(saved.begin(), saved.end(), true);
  for (std::size_t i = 0; i < kStorageKinds; ++i) {
    if (IsPersistent(static_cast<StorageKind>(i))) out.persistent += out.summary.bytes_by_kind[i];
  }
  if (out.summary.peak.at.valid()) out.peak_op = graph.op(out.summary.peak.at);
  return out;
}

Json InspectJson(const Inspection& inspection) {
  const Summary& summary = inspection.summary;
  Json result = NewResult("inspect");
  result["model"] = inspection.model;
  result["name"] = inspection.name;
  result["meta"] = inspection.meta;
  result["parameters"] = summary.parameters;
  result["forward_flops"] = summary.forward_flops();
  result["saved_bytes"] = summary.saved_bytes;
  result["saved_storages"] = inspection.saved_storages;
  result["persistent_bytes"] = inspection.persistent;
  result["peak_bytes"] = summary.peak.bytes;
  result["peak_at"] = OpJson(inspection);
  result["ops"] = summary.ops;
  result["tensors"] = summary.tensors;
  result["storages"] = summary.storages;
  result["time_ns"] = summary.time;
  result["ops_by_phase"] = ByPhase(summary.ops_by_phase);
  result["flops_by_phase"] = ByPhase(summary.flops_by_phase);
  Json& by_kind = result["bytes_by_kind"] = Json::object();
  for (std::size_t i = 0; i < kStorageKinds; ++i) {
    by_kind[std::string(Name(static_cast<StorageKind>(i)))] = summary.bytes_by_kind[i];
  }
  Json& kinds = result["ops_by_kind"] = Json::array();
  for (const KindSummary& kind : summary.kinds) {
    Json entry = {{"kind", kind.kind}};
    entry.update(ByPhase(kind.ops));
    entry["flops"] = kind.flops;
    entry["time_ns"] = kind.time;
    kinds.push_back(std::move(entry));
  }
  Json& largest = result["largest_tensors"] = Json::array();
  for (const LargeTensor& tensor : inspection.largest) largest.push_back(LargestJson(tensor));
  result["live_bytes"] = SampleMaxima(inspection.live, kLiveSamples);
  return result;
}

}  // namespace ebbtide::report
