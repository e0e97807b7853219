// What graph files of before the fields of the head say in `meta`.
#include "graph/head.h"

#include <algorithm>

#include "graph/names.h"

namespace ebbtide {
namespace {

// "pytorch", "torch 2.15.0", "mxnet", ...
Framework FrameworkOf(const std::string& text, const TrainingGraph& graph) {
  for (const Framework framework : {Framework::kMxnet, Framework::kTensorflow}) {
    if (text == Name(framework) && HasOpsOf(framework, graph)) return framework;
  }
  return Framework::kPytorch;
}

}  // namespace

GraphHead HeadByMeta(const TrainingGraph& graph) {
  GraphHead head;
  if (const auto found = graph.meta.find("framework"); found != graph.meta.end()) {
    head.framework = FrameworkOf(found->second, graph);
  }
  const auto says = [&](const char* key, const char* value) {
    const auto found = graph.meta.find(key);
    return found != graph.meta.end() && found->second == value;
  };
  head.loss_in_model = says("loss", "model");
  head.makes_state_early = says("optimizer", "adagrad");
  return head;
}

bool HasOpsOf(Framework framework, const TrainingGraph& graph) {
  const std::string_view prefix = framework == Framework::kMxnet        ? "mxnet::"
                                  : framework == Framework::kTensorflow ? "tensorflow::"
                                                                        : "";
  if (prefix.empty()) return true;
  return !graph.ops.empty() &&
         std::ranges::all_of(graph.ops, [&](const Op& op) { return op.schema.starts_with(prefix); });
}

}  // namespace ebbtide
