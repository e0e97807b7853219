// `ebbtide inspect` as JSON.
#include "report/json/inspect.h"

#include "graph/names.h"
#include "report/about.h"
#include "report/text/plot.h"

namespace ebbtide::report {
namespace {

constexpr std::size_t kLiveSamples = 256;

Json ByPhase(const std::array<std::int64_t, kPhases>& counts) {
  Json out = Json::object();
  for (std::size_t i = 0; i < kPhases; ++i) out[std::string(Name(static_cast<Phase>(i)))] = counts[i];
  return out;
}

Json PeakJson(const jobs::InspectResult& result) {
  const OpId at = result.summary.peak.at;
  if (!at.valid()) return nullptr;
  const Op& op = result.graph->op(at);
  return {{"op", at.value}, {"kind", op.kind}, {"phase", Name(op.phase)}, {"layer", op.layer}};
}

Json LargestJson(const jobs::LargeTensor& tensor) {
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

Json InspectJson(const jobs::InspectResult& inspection) {
  const Summary& summary = inspection.summary;
  Json result = NewResult("inspect");
  result["model"] = inspection.model;
  result["name"] = inspection.graph->name;
  result["meta"] = inspection.graph->meta;
  result["dtype"] = DtypeText(*inspection.graph);
  result["parameters"] = summary.parameters;
  result["forward_flops"] = summary.forward_flops();
  result["saved_bytes"] = summary.saved_bytes;
  result["saved_storages"] = inspection.saved_storages;
  result["persistent_bytes"] = inspection.persistent;
  result["peak_bytes"] = summary.peak.bytes;
  result["peak_at"] = PeakJson(inspection);
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
  for (const jobs::LargeTensor& tensor : inspection.largest) largest.push_back(LargestJson(tensor));
  result["live_bytes"] = SampleMaxima(inspection.live, kLiveSamples);
  return result;
}

}  // namespace ebbtide::report
