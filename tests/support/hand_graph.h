// Training steps made by hand, op by op, for tests that carry their arithmetic.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "sim/workload.h"

namespace ebbtide {

// Storages and tensors of it have the same numbers until a view or an in-place op yields a second tensor.
class HandGraph {
 public:
  TensorId Present(Bytes bytes, StorageKind kind = StorageKind::kParameter) { return Add(bytes, kind); }

  struct Details {
    Phase phase = Phase::kForward;
    Nanos time = 0;
    Bytes workspace = 0;
    bool deterministic = true;
    std::vector<TensorId> mutated = {};
  };
  // An op that reads `inputs` and makes a storage of each of the sizes.
  std::vector<TensorId> Run(const std::string& kind, std::vector<TensorId> inputs, const std::vector<Bytes>& sizes,
                            const Details& details) {
    std::vector<TensorId> outputs;
    for (const Bytes bytes : sizes) outputs.push_back(Add(bytes, StorageKind::kActivation));
    Push(kind, std::move(inputs), outputs, details);
    return outputs;
  }
  TensorId Make(const std::string& kind, std::vector<TensorId> inputs, Bytes bytes, const Details& details) {
    return Run(kind, std::move(inputs), {bytes}, details)[0];
  }
  // An op that changes the first of `inputs`, and yields it.
  TensorId Change(const std::string& kind, std::vector<TensorId> inputs, Details details) {
    details.mutated = {inputs[0]};
    const TensorId out = View(inputs[0]);
    Push(kind, std::move(inputs), {out}, details);
    return out;
  }
  // A second tensor of the same storage, that nothing yields yet.
  TensorId View(TensorId of) {
    graph.tensors.push_back(graph.tensor(of));
    return TensorId(graph.tensors.size() - 1);
  }
  void Push(const std::string& kind, std::vector<TensorId> inputs, std::vector<TensorId> outputs,
            const Details& details) {
    Op op;
    op.kind = kind;
    op.phase = details.phase;
    op.inputs = std::move(inputs);
    op.outputs = std::move(outputs);
    op.mutated = details.mutated;
    op.time = details.time;
    op.workspace = details.workspace;
    op.deterministic = details.deterministic;
    graph.ops.push_back(std::move(op));
  }

  std::vector<Nanos> Times() const {
    std::vector<Nanos> times;
    for (const Op& op : graph.ops) times.push_back(op.time);
    return times;
  }
  sim::Workload Workload(Bytes alignment = 1) const {
    return sim::MakeWorkload(graph, Times(), {.alignment = alignment});
  }

  TrainingGraph graph;

 private:
  TensorId Add(Bytes bytes, StorageKind kind) {
    const StorageId storage(graph.storages.size());
    graph.storages.push_back({.bytes = bytes, .kind = kind, .name = {}, .released_after = {}});
    graph.tensors.push_back(
        {.storage = storage, .dtype = DType::kUInt8, .shape = {bytes}, .stride = {1}, .offset = 0, .name = {}});
    return TensorId(graph.tensors.size() - 1);
  }
};

}  // namespace ebbtide
