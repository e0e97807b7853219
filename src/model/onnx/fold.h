// Evaluates operators on known arrays: the arithmetic on shapes that exporters leave in the graph.
#pragma once

#include <optional>

#include "model/onnx/shapes.h"

namespace ebbtide::model::onnx {

// The node's first output; nullopt where the operator is not one of these, its operands do not fit it, or the result
// would be larger than kMostKnownElements. Never an error: the operator's own rule then finds what is wrong.
using Folded = std::optional<Array>;
Folded Fold(const Node& node, const KnownInputs& inputs);

// Whether Fold knows the operator at all.
bool IsFoldable(const Node& node);

Folded Converted(const Array& array, DType dtype);

// ---- How the rules are written.
using FoldRule = Folded (*)(const Node&, const KnownInputs&);
FoldRule FindArithmeticRule(std::string_view op);  // fold_arithmetic.cc; nullptr: not one of these
FoldRule FindShapeRule(std::string_view op);       // fold_shape.cc

inline const Array* InputAt(const KnownInputs& inputs, std::size_t i) {
  return i < inputs.size() ? inputs[i] : nullptr;
}

inline std::int64_t IntegerOf(const Node& node, std::string_view attribute, std::int64_t fallback) {
  const auto* value = node.Get<std::int64_t>(attribute);
  return value ? *value : fallback;
}

// Elements of `array` in another order or number: position i of the result is element source(i).
template <class Source>
Array Rearranged(const Array& array, Dims shape, std::int64_t count, Source source) {
  Array out{.dtype = array.dtype, .shape = std::move(shape)};
  if (array.is_uniform() && count > 0) {
    out.integers = array.integers;
    out.reals = array.reals;
    return out;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (array.is_real()) out.reals.push_back(array.real(source(i)));
    if (!array.is_real()) out.integers.push_back(array.integer(source(i)));
  }
  return Simplified(std::move(out));
}

}  // namespace ebbtide::model::onnx
