// Goes by the phases of ops, and by what they write to.
#include "parallel/passes.h"

namespace ebbtide::parallel {

std::vector<Pass> PassesOf(const TrainingGraph& graph) {
  std::vector<Pass> passes = {Pass{}};
  bool in_backward = false;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Phase phase = graph.ops[i].phase;
    if (phase == Phase::kUpdate) continue;
    if (phase == Phase::kForward && in_backward) passes.push_back({i, i});
    in_backward = phase == Phase::kBackward;
    passes.back().end = i + 1;
  }
  return passes;
}

std::map<OpId, AddedGradient> AddedGradients(const TrainingGraph& graph, const std::vector<Pass>& passes) {
  std::map<OpId, AddedGradient> added;
  for (std::size_t pass = 1; pass < passes.size(); ++pass) {
    for (std::size_t i = passes[pass].begin; i < passes[pass].end; ++i) {
      const Op& op = graph.ops[i];
      if (op.kind != "add_" || op.inputs.size() != 2 || op.mutated.size() != 1) continue;
      const StorageId gradient = graph.tensor(op.mutated.front()).storage;
      if (graph.storage(gradient).kind != StorageKind::kGradient) continue;
      const TensorId fresh = graph.tensor(op.inputs[0]).storage == gradient ? op.inputs[1] : op.inputs[0];
      if (graph.tensor(fresh).storage != gradient) added.emplace(OpId(i), AddedGradient{gradient, fresh});
    }
  }
  return added;
}

}  // namespace ebbtide::parallel
