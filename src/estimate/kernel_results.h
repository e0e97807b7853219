// What PyTorch's CUDA kernels make of an op's results: in which order, and which of them lie elsewhere.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace ebbtide::estimate {

// The places of an op's results in the order in which they are made. Those left out take no device memory of their own.
// nullopt: all of them, as the schema lists them.
std::optional<std::span<const std::size_t>> ResultOrder(const Op& op);

// Parameters that a kernel wants in one piece, and torch therefore moves into one block: the weights of nn.LSTM and its
// kin. Their gradients are one block as well. Empty for other ops.
std::vector<TensorId> PackedParameters(const Op& op);
// Whether the op is the backward of such a kernel, and makes the gradients of its parameters in one block.
bool PacksGradients(const Op& op);

}  // namespace ebbtide::estimate
