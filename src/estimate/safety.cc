// Tells from the graph whether blocks may vary, and adds the margins.
#include "estimate/safety.h"

#include <algorithm>

#include "estimate/wrapped_units.h"
#include "graph/arguments.h"

namespace ebbtide::estimate {
namespace {

std::int64_t GroupsOf(const Op& op) {
  const std::int64_t* groups = ArgumentAs<std::int64_t>(op, "groups");
  return groups ? *groups : 1;
}

// By cuDNN: depthwise ones run on PyTorch's own kernels.
bool IsLibraryConvolution(const TrainingGraph& graph, const Op& op) {
  if (op.kind != "convolution") return false;
  const TensorId input = TensorArgument(op, "input");
  if (GroupsOf(op) == 1 || !input.valid() || graph.tensor(input).shape.size() < 2) return true;
  return GroupsOf(op) != graph.tensor(input).shape[1];
}

bool HasGroupedConvolutions(const TrainingGraph& graph) {
  return std::ranges::any_of(graph.ops, [](const Op& op) { return op.kind == "convolution" && GroupsOf(op) > 1; });
}

// Of the bytes that forward makes, the share that comes from cuDNN's convolutions.
double ConvolutionShare(const TrainingGraph& graph) {
  std::vector<bool> is_made(graph.storages.size());
  double made = 0, by_convolutions = 0;
  for (const Op& op : graph.ops) {
    if (op.phase != Phase::kForward) break;
    for (const TensorId output : op.outputs) {
      const StorageId storage = graph.tensor(output).storage;
      if (IsPersistent(graph.storage(storage).kind) || is_made[storage.index()]) continue;
      is_made[storage.index()] = true;
      const auto bytes = static_cast<double>(graph.storage(storage).bytes);
      made += bytes;
      if (IsLibraryConvolution(graph, op)) by_convolutions += bytes;
    }
  }
  return made > 0 ? by_convolutions / made : 0;
}

// Texts are batches of numbers of words.
bool HasFewTexts(const TrainingGraph& graph, std::int64_t few) {
  return std::ranges::any_of(graph.tensors, [&](const Tensor& tensor) {
    const bool is_words = tensor.dtype == DType::kInt64 && tensor.shape.size() == 2 && tensor.shape[1] > 1;
    return is_words && tensor.shape[0] <= few && graph.storage(tensor.storage).kind == StorageKind::kInput;
  });
}

// Weights, gradients and state: the same in every step.
Bytes SteadyBytes(const TrainingGraph& graph) {
  Bytes sum = 0;
  for (const Storage& storage : graph.storages) {
    const bool is_steady = IsPersistent(storage.kind) || storage.kind == StorageKind::kGradient;
    if (is_steady && storage.kind != StorageKind::kInput) sum += storage.bytes;
  }
  return sum;
}

Bytes ShareOf(double share, Bytes bytes) { return static_cast<Bytes>(share * static_cast<double>(bytes)); }

}  // namespace

SafeFigure SafeTotal(const Estimate& estimate, const TrainingGraph& graph, const SafetyRule& rule) {
  SafeFigure safe;
  safe.context_margin = estimate.context_margin;
  const Bytes layout =
      ShareOf(rule.share, estimate.total()) + (rule.one_more_block ? estimate.largest_passing_blocks : 0);
  safe.layout_margin = layout + rule.code + StoredForOthers(graph);
  const bool may_pick_others = HasGroupedConvolutions(graph) && ConvolutionShare(graph) >= rule.convolutions_from;
  if (may_pick_others || HasFewTexts(graph, rule.few_texts)) {
    const Bytes varying = ShareOf(rule.varying_share, std::max<Bytes>(estimate.peak_reserved - SteadyBytes(graph), 0));
    safe.varying_margin = std::max<Bytes>(varying - layout, 0);
  }
  safe.bytes = estimate.total() + safe.layout_margin + safe.varying_margin + safe.context_margin;
  safe.probability = rule.probability;
  return safe;
}

}  // namespace ebbtide::estimate
