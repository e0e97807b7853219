// Lifetimes by one pass over the ops; live bytes as a running sum of what begins and ends.
#include "graph/liveness.h"

#include <algorithm>
#include <cassert>

namespace ebbtide {

std::vector<Lifetime> ComputeLiveness(const TrainingGraph& graph) {
  const OpId end(graph.ops.size());
  std::vector<Lifetime> lifetimes(graph.storages.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const OpId op(i);
    for (const TensorId id : graph.ops[i].inputs) lifetimes[graph.tensor(id).storage.index()].last_use = op;
    for (const TensorId id : graph.ops[i].outputs) {
      Lifetime& lifetime = lifetimes[graph.tensor(id).storage.index()];
      if (!lifetime.born.valid()) lifetime.born = op;
      lifetime.last_use = op;
    }
  }
  for (const TensorId id : graph.outputs) lifetimes[graph.tensor(id).storage.index()].outlives_step = true;
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    Lifetime& lifetime = lifetimes[i];
    if (IsPersistent(graph.storages[i].kind)) {
      lifetime.born = OpId(0);
      lifetime.persistent = lifetime.outlives_step = true;
    }
    assert(lifetime.born.valid());
    lifetime.end =
        lifetime.outlives_step ? end : OpId(std::max(lifetime.last_use, graph.storages[i].released_after).index() + 1);
  }
  return lifetimes;
}

Releases::Releases(const TrainingGraph& graph, std::span<const Lifetime> lifetimes) : begin_(graph.ops.size() + 1) {
  // Counts, then where each op's part begins, then the parts: a storage goes to the part of the op before its end.
  for (const Lifetime& lifetime : lifetimes) {
    if (!lifetime.outlives_step) ++begin_[lifetime.end.index()];
  }
  for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  storages_.resize(begin_.back());
  std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    if (!lifetimes[i].outlives_step) storages_[next[lifetimes[i].end.index() - 1]++] = StorageId(i);
  }
}

std::vector<Bytes> LiveBytes(const TrainingGraph& graph, std::span<const Lifetime> lifetimes) {
  // Changes at each op, then their running sum.
  std::vector<Bytes> live(graph.ops.size() + 1);
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    live[lifetimes[i].born.index()] += graph.storages[i].bytes;
    live[lifetimes[i].end.index()] -= graph.storages[i].bytes;
  }
  live.pop_back();
  for (std::size_t i = 1; i < live.size(); ++i) live[i] += live[i - 1];
  for (std::size_t i = 0; i < live.size(); ++i) live[i] += graph.ops[i].workspace;
  return live;
}

Peak PeakLiveBytes(const TrainingGraph& graph, std::span<const Lifetime> lifetimes) {
  const std::vector<Bytes> live = LiveBytes(graph, lifetimes);
  Peak peak;
  if (live.empty()) {
    for (const Storage& storage : graph.storages) peak.bytes += storage.bytes;
    return peak;
  }
  const auto highest = std::max_element(live.begin(), live.end());
  return {.bytes = *highest, .at = OpId(static_cast<std::size_t>(highest - live.begin()))};
}

}  // namespace ebbtide
