// Arithmetic on known arrays: what graphs compute shapes, axes and loop counters with.
#pragma once

#include <optional>
#include <string_view>

#include "model/tensorflow/graph_def.h"

namespace ebbtide::model::tensorflow {

// nullopt where the operator is not one of these, the result would be large, or it does not fit its type. `shape` is
// the one that both broadcast to.
std::optional<Array> FoldBinary(std::string_view op, const Array& a, const Array& b, const Dims& shape);
std::optional<Array> FoldCompare(std::string_view op, const Array& a, const Array& b, const Dims& shape);
std::optional<Array> FoldUnary(std::string_view op, const Array& a);
std::optional<Array> FoldCast(const Array& a, DType dtype);

// Over all axes or, for a vector, its only one. `shape` is that of the result.
std::optional<Array> FoldReduction(std::string_view op, const Array& a, const Dims& shape);

// The same elements under another shape.
Array Reshaped(Array array, Dims shape);

// Elements of `array`, picked by their places.
template <class Source>
std::optional<Array> Picked(const Array& array, Dims shape, Source source) {
  const auto count = CountElements(shape);
  if (!count || (*count > kMostKnownElements && !array.is_uniform())) return std::nullopt;
  Array out{.dtype = array.dtype, .shape = std::move(shape)};
  if (array.is_uniform()) {
    out.integers = array.integers;
    out.reals = array.reals;
    return out;
  }
  for (std::int64_t i = 0; i < *count; ++i) {
    const auto place = static_cast<std::size_t>(source(i));
    if (place >= array.stored()) return std::nullopt;
    if (array.is_real()) out.reals.push_back(array.real(place));
    if (!array.is_real()) out.integers.push_back(array.integer(place));
  }
  return Simplified(std::move(out));
}

}  // namespace ebbtide::model::tensorflow
