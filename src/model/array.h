// Arrays whose contents are known while the file is read: constants, and what shapes are computed with.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace ebbtide::model {

// Bounds of every shape: more axes or elements than any framework takes.
inline constexpr std::size_t kMostAxes = 32;
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 48;
// Contents with more elements than this are not followed, unless all are equal.
inline constexpr std::int64_t kMostKnownElements = 4096;

// One element stands for all: an array of equal elements may have any shape.
struct Array {
  DType dtype = DType::kFloat32;
  Dims shape = {};
  std::vector<std::int64_t> integers = {};  // of a dtype that is not floating: booleans are 0 and 1
  std::vector<double> reals = {};           // of one that is

  bool is_real() const { return IsFloating(dtype); }
  std::size_t stored() const { return is_real() ? reals.size() : integers.size(); }
  bool is_uniform() const { return stored() == 1; }
  std::int64_t integer(std::size_t i) const { return integers[integers.size() == 1 ? 0 : i]; }
  double real(std::size_t i) const { return reals[reals.size() == 1 ? 0 : i]; }
  double number(std::size_t i) const { return is_real() ? real(i) : static_cast<double>(integer(i)); }
};

// Number of elements where the shape is one we take: at most kMostAxes axes, none negative, at most kMostElements.
std::optional<std::int64_t> CountElements(const Dims& shape);

Array IntegerArray(Dims shape, std::vector<std::int64_t> values, DType dtype = DType::kInt64);
Array RealArray(Dims shape, std::vector<double> values, DType dtype = DType::kFloat32);

// Appends the elements of the array's dtype that `raw` holds, as files lay them out: little-endian, one after another.
// Complex numbers are left out.
void AppendRaw(std::string_view raw, Array& array);
// The number that the bits of a kFloat16 or kBFloat16 stand for.
double HalfToDouble(std::uint16_t bits, DType dtype);

// Equal elements are stored once.
Array Simplified(Array array);

// The shape both broadcast to, as numpy does it.
std::optional<Dims> Broadcast(const Dims& a, const Dims& b);

// An axis counted from the front; nullopt where the shape has none such.
std::optional<int> NormalAxis(std::int64_t axis, std::size_t axes);

}  // namespace ebbtide::model
