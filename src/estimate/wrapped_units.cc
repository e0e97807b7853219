// Reads units off the ops that gather them.
#include "estimate/wrapped_units.h"

#include <algorithm>

#include "graph/collective.h"
#include "graph/dtype.h"

namespace ebbtide::estimate {
namespace {

// The shards that go into a gathering: parameters, or copies of them in the type of computation.
std::vector<TensorId> ShardsOf(const TrainingGraph& graph, std::size_t gather) {
  std::vector<TensorId> shards;
  const Op* op = &graph.ops[gather];
  const bool is_copied = gather > 0 && graph.ops[gather - 1].kind == "_foreach_copy";
  if (is_copied && graph.storage_of(op->inputs.front()).kind == StorageKind::kTemporary) op = &graph.ops[gather - 1];
  for (const TensorId id : op->inputs) {
    if (graph.storage_of(id).kind == StorageKind::kParameter) shards.push_back(id);
  }
  return shards;
}

// Calls `visit(shards, ranks)` for every unit.
template <class Visit>
void ForEachUnit(const TrainingGraph& graph, const Visit& visit) {
  for (std::size_t i = 1; i < graph.ops.size() && graph.ops[i].phase == Phase::kForward; ++i) {
    if (graph.ops[i].kind != "_use_unsharded_views" || !IsCollective(graph.ops[i - 1])) continue;
    const std::vector<TensorId> shards = ShardsOf(graph, i - 1);
    if (!shards.empty()) visit(shards, GroupOf(graph.ops[i - 1]).ranks);
  }
}

}  // namespace

WholeUnits WrappedUnits(const TrainingGraph& graph) {
  WholeUnits units;
  ForEachUnit(graph, [&](const std::vector<TensorId>& shards, std::int64_t ranks) {
    StorageId first = graph.tensor(shards.front()).storage;
    std::vector<Bytes> whole;
    for (const TensorId shard : shards) {
      first = std::min(first, graph.tensor(shard).storage);
      whole.push_back(SaturatingMul(graph.storage_of(shard).bytes, ranks));
    }
    units.emplace(first, std::move(whole));
  });
  return units;
}

Bytes StoredForOthers(const TrainingGraph& graph) {
  Bytes bytes = 0;
  ForEachUnit(graph, [&](const std::vector<TensorId>& shards, std::int64_t ranks) {
    for (const TensorId shard : shards) {
      const bool is_stored = !IsFloating(graph.tensor(shard).dtype);
      if (is_stored) bytes += SaturatingMul(graph.storage_of(shard).bytes, ranks - 1);
    }
  });
  return bytes;
}

}  // namespace ebbtide::estimate
