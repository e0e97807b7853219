#include "model/onnx/array.h"

#include <algorithm>

namespace ebbtide::model::onnx {

std::optional<std::int64_t> CountElements(const Dims& shape) {
  if (shape.size() > kMostAxes) return std::nullopt;
  std::int64_t count = 1;
  bool empty = false;
  for (std::int64_t size : shape) {
    if (size < 0 || size > kMostElements) return std::nullopt;
    empty |= size == 0;
    const auto product = CheckedMul(count, std::max<std::int64_t>(size, 1));
    if (!product || *product > kMostElements) return std::nullopt;
    count = *product;
  }
  return empty ? 0 : count;
}

namespace {

template <class T>
void CollapseEqual(std::vector<T>& values) {
  if (values.size() < 2) return;
  const bool equal = std::ranges::all_of(values, [&](const T& value) { return value == values.front(); });
  if (equal) values.resize(1);
}

}  // namespace

Array Simplified(Array array) {
  CollapseEqual(array.integers);
  CollapseEqual(array.reals);
  return array;
}

Array IntegerArray(Dims shape, std::vector<std::int64_t> values, DType dtype) {
  return Simplified({.dtype = dtype, .shape = std::move(shape), .integers = std::move(values)});
}

Array RealArray(Dims shape, std::vector<double> values, DType dtype) {
  return Simplified({.dtype = dtype, .shape = std::move(shape), .reals = std::move(values)});
}

std::optional<Dims> Broadcast(const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {  // from the last axis
    const std::int64_t from_a = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t from_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) return std::nullopt;
    out[out.size() - 1 - i] = from_a == 1 ? from_b : from_a;
  }
  if (!CountElements(out)) return std::nullopt;
  return out;
}

std::optional<int> NormalAxis(std::int64_t axis, std::size_t axes) {
  const auto count = static_cast<std::int64_t>(axes);
  if (axis < -count || axis >= count) return std::nullopt;
  return static_cast<int>(axis < 0 ? axis + count : axis);
}

}  // namespace ebbtide::model::onnx
