// What an estimate leaves out because there is no rule for it: told to the user, never passed over.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace ebbtide::estimate {

// The numbers of the ops whose scratch memory no rule knows (scratch.h). Of graphs in PyTorch's ops; those of other
// frameworks have kernels of their own, whose scratch memory is cuDNN's alone (docs/tensorflow.md, docs/mxnet.md).
std::vector<OpId> WithoutScratchRule(const TrainingGraph& graph);

// The kinds of op of which all such were measured when the graph was captured: Op::workspace says what they take.
std::set<std::string> MeasuredKinds(const TrainingGraph& graph);

// "scratch of aten::sort", each kind of op once, by name: what has no rule and was not measured.
std::vector<std::string> NotCounted(const TrainingGraph& graph);

}  // namespace ebbtide::estimate
