// Names the ops whose scratch memory has neither a rule nor a measurement.
#include "estimate/not_counted.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "estimate/scratch.h"

namespace ebbtide::estimate {

std::vector<OpId> WithoutScratchRule(const TrainingGraph& graph) {
  if (graph.framework == Framework::kMxnet || graph.framework == Framework::kTensorflow) return {};
  std::vector<OpId> found;
  ScratchKnowledge knowledge;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (!knowledge.Of(graph, graph.ops[i])) found.push_back(OpId(i));
  }
  return found;
}

std::set<std::string> MeasuredKinds(const TrainingGraph& graph) {
  const auto found = graph.meta.find("scratch_measured");
  if (found == graph.meta.end()) return {};
  std::istringstream words(found->second);
  return {std::istream_iterator<std::string>(words), {}};
}

std::vector<std::string> NotCounted(const TrainingGraph& graph) {
  const std::set<std::string> measured = MeasuredKinds(graph);
  std::set<std::string> kinds;
  for (const OpId id : WithoutScratchRule(graph)) {
    const Op& op = graph.op(id);
    if (op.workspace > 0 || measured.contains(op.kind)) continue;
    kinds.insert(op.kind.find("::") == std::string::npos ? "aten::" + op.kind : op.kind);
  }
  std::vector<std::string> out;
  std::ranges::transform(kinds, std::back_inserter(out), [](const auto& kind) { return "scratch of " + kind; });
  return out;
}

}  // namespace ebbtide::estimate
