// Goes through the forward ops with a stack of open calls, told by the names of layers.
#include "estimate/module_calls.h"

#include <algorithm>
#include <string_view>

namespace ebbtide::estimate {
namespace {

struct Call {
  std::size_t name_ends = 0;  // in the layer's name
  OpId begin;
  std::vector<StorageId> arguments;
};

// Where the names of the modules end that both paths are within: at a dot or at the end.
std::size_t CommonModules(std::string_view a, std::string_view b) {
  const std::size_t length = std::min(a.size(), b.size());
  std::size_t common = 0;
  for (std::size_t i = 0; i <= length; ++i) {
    const bool a_ends = i == a.size() || a[i] == '.', b_ends = i == b.size() || b[i] == '.';
    if (a_ends && b_ends) common = i;
    if (i == length || a[i] != b[i]) break;
  }
  return common;
}

}  // namespace

void HoldArguments(const TrainingGraph& graph, std::vector<Lifetime>& lifetimes) {
  std::vector<Call> calls;  // open ones, each within the one before
  std::string_view layer;
  const auto close = [&](std::size_t kept, OpId end) {
    for (; !calls.empty() && calls.back().name_ends > kept; calls.pop_back()) {
      for (const StorageId id : calls.back().arguments) {
        lifetimes[id.index()].end = std::max(lifetimes[id.index()].end, end);
      }
    }
  };
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.phase != Phase::kForward) {
      close(0, OpId(i));
      layer = {};
      continue;
    }
    if (op.layer != layer) {
      close(CommonModules(layer, op.layer), OpId(i));
      layer = op.layer;
      std::size_t from = calls.empty() ? 0 : calls.back().name_ends + 1;
      while (from < layer.size()) {
        const std::size_t ends = std::min(layer.find('.', from), layer.size());
        calls.push_back({ends, OpId(i), {}});
        from = ends + 1;
      }
    }
    if (op.kind == "embedding" && calls.size() > 1 && !op.outputs.empty()) {
      const StorageId made = graph.tensor(op.outputs.front()).storage;
      if (!lifetimes[made.index()].outlives_step) calls[calls.size() - 2].arguments.push_back(made);
    }
    for (const TensorId input : op.inputs) {
      const StorageId id = graph.tensor(input).storage;
      if (lifetimes[id.index()].outlives_step) continue;
      // Of the calls that began when it was there, the outermost returns last.
      const auto call = std::ranges::upper_bound(calls, lifetimes[id.index()].born, {}, &Call::begin);
      if (call != calls.end()) call->arguments.push_back(id);
    }
  }
  close(0, OpId(graph.ops.size()));
}

}  // namespace ebbtide::estimate
