// The gradient of a symbol, as MXNet's Gradient pass makes it, and the order in which its executor runs the whole.
#pragma once

#include <vector>

#include "model/mxnet/operators.h"

namespace ebbtide::model::mxnet {

// Operators that only a gradient has: a sum of few gradients, of many (two at a time), its end, and what stands for a
// gradient that nobody made.
inline constexpr const char* kSum = "add_n";
inline constexpr const char* kSumOfTwo = "_grad_add";
inline constexpr const char* kCopy = "_copy";
inline constexpr const char* kNoGradient = "_zeros_without_dtype";

// Appends the gradient's nodes, with shapes, and a head for the gradient of each of `variables`, in their order.
Status AddGradient(Symbol& symbol, const std::vector<int>& variables);

// Nodes that the heads need, inputs before what reads them: a depth-first walk from each head in turn.
std::vector<int> ExecutionOrder(const Symbol& symbol);

}  // namespace ebbtide::model::mxnet
