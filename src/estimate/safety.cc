#include "estimate/safety.h"

#include <algorithm>

#include "estimate/scratch.h"

namespace ebbtide::estimate {
namespace {

Bytes LargestConvolutionWorkspace(const TrainingGraph& graph, const DeviceProfile& gpu) {
  Bytes largest = 0;
  for (const Op& op : graph.ops) {
    if (!op.kind.starts_with("convolution")) continue;
    for (const Scratch& scratch : ScratchOf(graph, op, gpu)) largest = std::max(largest, scratch.bytes);
  }
  return largest;
}

}  // namespace

SafeFigure SafeTotal(const Estimate& estimate, const TrainingGraph& graph, const DeviceProfile& gpu,
                     const SafetyRule& rule) {
  SafeFigure safe;
  safe.layout_margin = std::max(static_cast<Bytes>(rule.share * static_cast<double>(estimate.total())), rule.least);
  safe.workspace_margin = LargestConvolutionWorkspace(graph, gpu);
  safe.bytes = estimate.total() + safe.layout_margin + safe.workspace_margin;
  safe.probability = rule.probability;
  return safe;
}

}  // namespace ebbtide::estimate
