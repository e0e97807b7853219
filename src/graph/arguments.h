// What an op is called with, by the names of its schema.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace ebbtide {

// Null where the op has no argument of that name.
const Value* FindArgument(const Op& op, std::string_view name);

// The value under that name where it is a T; null where it is absent, None or of another type.
template <class T>
const T* ArgumentAs(const Op& op, std::string_view name) {
  const Value* value = FindArgument(op, name);
  return value ? std::get_if<T>(value) : nullptr;
}

// The tensor under that name; invalid if absent, None or not a tensor.
TensorId TensorArgument(const Op& op, std::string_view name);

// The integer under that name; `otherwise` if absent, None or not an integer.
std::int64_t IntegerArgument(const Op& op, std::string_view name, std::int64_t otherwise);

// For permute, transpose and t over a tensor of `axes` axes: by axis of the result, the axis of the input that it was.
Dims AxisOrder(const Op& op, std::size_t axes);

}  // namespace ebbtide
