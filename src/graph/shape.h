// Arithmetic on shapes from files: everything that can overflow says so.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace ebbtide {

// Number of elements; nullopt where it overflows. The dimensions are not negative.
std::optional<std::int64_t> ElementCount(const Dims& shape);

// Strides of a row-major tensor, as torch computes them: a dimension of 0 counts as 1. nullopt where they overflow.
std::optional<Dims> ContiguousStride(const Dims& shape);

// Bytes from the start of its storage to the end of the tensor's last element; 0 where it has none. nullopt where it
// overflows. Shape, strides and offset are not negative, and as many strides as dimensions.
std::optional<Bytes> Reach(const Tensor& tensor);

}  // namespace ebbtide
