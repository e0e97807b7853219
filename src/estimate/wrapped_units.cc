// Reads units off the ops that gather them.
#include "estimate/wrapped_units.h"

#include <algorithm>

#include "graph/collective.h"

namespace ebbtide::estimate {
namespace {

// The shards that go into a gathering: parameters, or copies of them in the type of computation.
std::vector<StorageId> ShardsOf(const TrainingGraph& graph, std::size_t gather) {
  std::vector<StorageId> shards;
  const Op* op = &graph.ops[gather];
  const bool is_copied = gather > 0 && graph.ops[gather - 1].kind == "_foreach_copy";
  if (is_copied && graph.storage_of(op->inputs.front()).kind == StorageKind::kTemporary) op = &graph.ops[gather - 1];
  for (const TensorId id : op->inputs) {
    if (graph.storage_of(id).kind == StorageKind::kParameter) shards.push_back(graph.tensor(id).storage);
  }
  return shards;
}

}  // namespace

WholeUnits WrappedUnits(const TrainingGraph& graph) {
  WholeUnits units;
  for (std::size_t i = 1; i < graph.ops.size() && graph.ops[i].phase == Phase::kForward; ++i) {
    if (graph.ops[i].kind != "_use_unsharded_views" || !IsCollective(graph.ops[i - 1])) continue;
    std::vector<StorageId> shards = ShardsOf(graph, i - 1);
    if (shards.empty()) continue;
    const std::int64_t ranks = GroupOf(graph.ops[i - 1]).ranks;
    std::vector<Bytes> whole;
    for (const StorageId shard : shards) whole.push_back(SaturatingMul(graph.storage(shard).bytes, ranks));
    units.emplace(*std::ranges::min_element(shards), std::move(whole));
  }
  return units;
}

}  // namespace ebbtide::estimate
