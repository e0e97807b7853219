// The operators of MXNet that we know, as a table: how their gradients are made and which kernels run.
#pragma once

#include <string_view>

#include "model/mxnet/symbol.h"

namespace ebbtide::model::mxnet {

// How shapes follow from an operator's inputs; see shapes.cc for each.
enum class ShapeRule {
  kSame,
  kBroadcast,
  kConvolution,
  kFullyConnected,
  kBatchNorm,
  kLayerNorm,
  kPooling,
  kConcat,
  kSplit,
  kReshape,
  kFlatten,
  kExpandDims,
  kSwapAxes,
  kTranspose,
  kEmbedding,
  kRecurrent,
  kSoftmaxOutput,
  kDropout,
  kZeros,
  kSliceAxis,
  kMean,
  kBatchDot
};

struct Operator {
  std::string_view name;  // with ":variant" where gradients differ: "Activation:relu"
  ShapeRule shapes;
  std::string_view kind;  // of its op in a TrainingGraph
  bool is_identity;  // its output is its first input under another shape: no kernel runs where both may lie together

  // The gradient: an operator that reads gradients of outputs (g0), inputs (i0) and outputs (o0) of the node, "g*" and
  // "i*" being all of them, and yields gradients of these inputs. "=": every input gets the output's gradient as it is.
  // "": none.
  std::string_view backward;
  std::string_view reads;
  std::string_view yields;
  std::string_view backward_kind;
  bool is_backward_identity = false;
};

// The operator of a node, by whichever of its names; null where it is not known.
const Operator* FindOperator(const Node& node);

// ":"-less name under which MXNet's registry knows it: "Activation:relu" is "Activation".
std::string_view RegisteredName(const Operator& op);

}  // namespace ebbtide::model::mxnet
