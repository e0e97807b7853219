// Elements from bytes, broadcasting, and arrays of equal elements kept as one.
#include "model/array.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace ebbtide::model {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

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

template <class T, class Out>
void AppendAs(std::string_view raw, std::vector<Out>& out) {
  for (std::size_t at = 0; at + sizeof(T) <= raw.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, raw.data() + at, sizeof(T));
    out.push_back(static_cast<Out>(value));
  }
}

}  // namespace

void AppendRaw(std::string_view raw, Array& array) {
  switch (array.dtype) {
    case DType::kBool:
    case DType::kUInt8: return AppendAs<std::uint8_t>(raw, array.integers);
    case DType::kInt8: return AppendAs<std::int8_t>(raw, array.integers);
    case DType::kInt16: return AppendAs<std::int16_t>(raw, array.integers);
    case DType::kInt32: return AppendAs<std::int32_t>(raw, array.integers);
    case DType::kInt64: return AppendAs<std::int64_t>(raw, array.integers);
    case DType::kFloat32: return AppendAs<float>(raw, array.reals);
    case DType::kFloat64: return AppendAs<double>(raw, array.reals);
    case DType::kFloat16:
    case DType::kBFloat16: {
      std::vector<std::uint16_t> halves;
      AppendAs<std::uint16_t>(raw, halves);
      for (const std::uint16_t bits : halves) array.reals.push_back(HalfToDouble(bits, array.dtype));
      return;
    }
    case DType::kComplex64:
    case DType::kComplex128: return;
  }
}

double HalfToDouble(std::uint16_t bits, DType dtype) {
  if (dtype == DType::kBFloat16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size = exponent == 31  ? (fraction ? NAN : INFINITY)
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -size : size;
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

}  // namespace ebbtide::model
