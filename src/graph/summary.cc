// Counts in one pass over the ops; only the largest storages are sorted.
#include "graph/summary.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace ebbtide {
namespace {

std::size_t Index(Phase phase) { return static_cast<std::size_t>(phase); }

// The op that first yields a tensor of each storage; invalid: none does, it is persistent.
std::vector<OpId> Producers(const TrainingGraph& graph) {
  std::vector<OpId> producers(graph.storages.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const TensorId id : graph.ops[i].outputs) {
      const StorageId storage = graph.tensor(id).storage;
      if (!producers[storage.index()].valid() && !IsPersistent(graph.storage(storage).kind)) {
        producers[storage.index()] = OpId(i);
      }
    }
  }
  return producers;
}

// The first tensor of each storage; invalid: it has none.
std::vector<TensorId> FirstTensors(const TrainingGraph& graph) {
  std::vector<TensorId> first(graph.storages.size());
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    TensorId& tensor = first[graph.tensors[i].storage.index()];
    if (!tensor.valid()) tensor = TensorId(i);
  }
  return first;
}

std::vector<bool> FindSaved(const TrainingGraph& graph, const std::vector<OpId>& producers) {
  std::vector<bool> saved(graph.storages.size());
  for (const Op& op : graph.ops) {
    if (op.phase != Phase::kBackward) continue;
    for (const TensorId id : op.inputs) {
      const StorageId storage = graph.tensor(id).storage;
      const OpId producer = producers[storage.index()];
      if (producer.valid() && graph.op(producer).phase == Phase::kForward) saved[storage.index()] = true;
    }
  }
  return saved;
}

std::vector<KindSummary> SummarizeKinds(const TrainingGraph& graph) {
  std::unordered_map<std::string_view, std::size_t> place;
  std::vector<KindSummary> kinds;
  for (const Op& op : graph.ops) {
    const auto [entry, is_new] = place.try_emplace(op.kind, kinds.size());
    if (is_new) kinds.push_back({.kind = op.kind});
    KindSummary& kind = kinds[entry->second];
    ++kind.ops[Index(op.phase)];
    kind.flops += op.flops;
    kind.time += op.time;
  }
  const auto total = [](const KindSummary& kind) { return kind.ops[0] + kind.ops[1] + kind.ops[2]; };
  std::sort(kinds.begin(), kinds.end(), [&](const KindSummary& a, const KindSummary& b) {
    return std::tuple(b.flops, total(b), std::string_view(a.kind)) <
           std::tuple(a.flops, total(a), std::string_view(b.kind));
  });
  return kinds;
}

// Numbers of the `count` largest storages, largest first.
std::vector<StorageId> Largest(const TrainingGraph& graph, std::size_t count) {
  std::vector<StorageId> ids(graph.storages.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = StorageId(i);
  count = std::min(count, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(),
                    [&](StorageId a, StorageId b) {
                      return std::tuple(graph.storage(b).bytes, a) < std::tuple(graph.storage(a).bytes, b);
                    });
  ids.resize(count);
  return ids;
}

}  // namespace

std::vector<bool> SavedForBackward(const TrainingGraph& graph) { return FindSaved(graph, Producers(graph)); }

Summary Summarize(const TrainingGraph& graph, std::size_t largest) {
  const std::vector<OpId> producers = Producers(graph);
  const std::vector<TensorId> first_tensors = FirstTensors(graph);
  const std::vector<bool> saved = FindSaved(graph, producers);

  Summary summary;
  summary.ops = static_cast<std::int64_t>(graph.ops.size());
  summary.tensors = static_cast<std::int64_t>(graph.tensors.size());
  summary.storages = static_cast<std::int64_t>(graph.storages.size());
  for (const Op& op : graph.ops) {
    ++summary.ops_by_phase[Index(op.phase)];
    summary.flops_by_phase[Index(op.phase)] += op.flops;
    summary.time += op.time;
  }
  for (std::size_t i = 0; i < graph.storages.size(); ++i) {
    const Storage& storage = graph.storages[i];
    summary.bytes_by_kind[static_cast<std::size_t>(storage.kind)] += storage.bytes;
    if (saved[i]) summary.saved_bytes += storage.bytes;
    if (storage.kind == StorageKind::kParameter && first_tensors[i].valid()) {
      summary.parameters += storage.bytes / ItemSize(graph.tensor(first_tensors[i]).dtype);
    }
  }
  summary.peak = PeakLiveBytes(graph, ComputeLiveness(graph));
  summary.kinds = SummarizeKinds(graph);
  for (const StorageId id : Largest(graph, largest)) {
    const Storage& storage = graph.storage(id);
    StorageSummary& entry = summary.largest.emplace_back();
    entry = {.storage = id,
             .bytes = storage.bytes,
             .kind = storage.kind,
             .name = storage.name,
             .shape = {},
             .producer = producers[id.index()],
             .saved = saved[id.index()]};
    if (!first_tensors[id.index()].valid()) continue;
    const Tensor& tensor = graph.tensor(first_tensors[id.index()]);
    entry.shape = tensor.shape;
    if (entry.name.empty()) entry.name = tensor.name;
  }
  return summary;
}

}  // namespace ebbtide
