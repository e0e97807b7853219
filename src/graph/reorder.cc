// Which ops depend on which, storage by storage, and the graph in another order.
#include "graph/reorder.h"

#include <algorithm>

#include "graph/collective.h"

namespace ebbtide {

std::vector<std::vector<OpId>> Predecessors(const TrainingGraph& graph) {
  struct Touches {
    OpId writer;                // the last that made or changed it
    std::vector<OpId> readers;  // since then
  };
  std::vector<Touches> touches(graph.storages.size());
  std::vector<OpId> yielded(graph.tensors.size());
  std::vector<std::vector<StorageId>> released(graph.ops.size());
  for (std::size_t s = 0; s < graph.storages.size(); ++s) {
    const OpId after = graph.storages[s].released_after;
    if (after.valid()) released[after.index()].push_back(StorageId(s));
  }
  OpId random, collective;
  std::vector<std::vector<OpId>> out(graph.ops.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const OpId id(i);
    std::vector<OpId>& before = out[i];
    const auto add = [&](OpId earlier) {
      if (earlier.valid() && earlier != id) before.push_back(earlier);
    };
    const auto storage_of = [&](TensorId t) { return graph.tensor(t).storage.index(); };
    for (const TensorId t : op.inputs) {
      add(yielded[t.index()]);
      add(touches[storage_of(t)].writer);
    }
    const auto write = [&](std::size_t s) {
      add(touches[s].writer);
      for (const OpId reader : touches[s].readers) add(reader);
      touches[s] = {.writer = id, .readers = {}};
    };
    for (const TensorId t : op.inputs) touches[storage_of(t)].readers.push_back(id);
    for (const TensorId t : op.mutated) write(storage_of(t));
    for (const TensorId t : op.outputs) {
      yielded[t.index()] = id;
      const std::size_t s = storage_of(t);
      const bool is_made = !touches[s].writer.valid() && touches[s].readers.empty();
      if (is_made && !IsPersistent(graph.storages[s].kind)) write(s);
      touches[s].readers.push_back(id);
    }
    for (const StorageId s : released[i]) {
      add(touches[s.index()].writer);
      for (const OpId reader : touches[s.index()].readers) add(reader);
    }
    if (op.random) add(random), random = id;
    if (MovedBytes(op) > 0) add(collective), collective = id;
    std::ranges::sort(before);
    before.erase(std::unique(before.begin(), before.end()), before.end());
  }
  return out;
}

std::vector<OpId> Segments(const TrainingGraph& graph) {
  std::vector<OpId> out;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (i == 0 || graph.ops[i].phase != graph.ops[i - 1].phase) out.emplace_back(i);
  }
  out.emplace_back(graph.ops.size());
  return out;
}

TrainingGraph Reordered(const TrainingGraph& graph, std::span<const OpId> order) {
  TrainingGraph out = graph;
  std::vector<OpId> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    out.ops[i] = graph.op(order[i]);
    place[order[i].index()] = OpId(i);
  }
  for (Storage& storage : out.storages) {
    if (storage.released_after.valid()) storage.released_after = place[storage.released_after.index()];
  }
  return out;
}

}  // namespace ebbtide
