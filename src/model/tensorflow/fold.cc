// Element by element over broadcast places; results that overflow their type are not known.
#include "model/tensorflow/fold.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ebbtide::model::tensorflow {
namespace {

std::optional<std::int64_t> Integers(std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (op == "Add" || op == "AddV2") return __builtin_add_overflow(a, b, &out) ? std::nullopt : std::optional(out);
  if (op == "Sub") return __builtin_sub_overflow(a, b, &out) ? std::nullopt : std::optional(out);
  if (op == "Mul") return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional(out);
  if (op == "Maximum") return std::max(a, b);
  if (op == "Minimum") return std::min(a, b);
  if (op == "FloorDiv" || op == "FloorMod" || op == "Div") {
    if (b == 0 || (a == std::numeric_limits<std::int64_t>::min() && b == -1)) return std::nullopt;
    const std::int64_t rest = ((a % b) + b) % b;
    return op == "FloorMod" ? rest : op == "Div" ? a / b : (a - rest) / b;
  }
  return std::nullopt;
}

std::optional<double> Reals(std::string_view op, double a, double b) {
  if (op == "Add" || op == "AddV2") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "RealDiv" || op == "Div") return a / b;
  if (op == "DivNoNan") return b == 0 ? 0 : a / b;
  if (op == "Maximum") return std::max(a, b);
  if (op == "Minimum") return std::min(a, b);
  if (op == "Pow") return std::pow(a, b);
  return std::nullopt;
}

std::optional<bool> Truth(std::string_view op, double a, double b) {
  if (op == "Less") return a < b;
  if (op == "LessEqual") return a <= b;
  if (op == "Greater") return a > b;
  if (op == "GreaterEqual") return a >= b;
  if (op == "Equal") return a == b;
  if (op == "NotEqual") return a != b;
  if (op == "LogicalAnd") return a != 0 && b != 0;
  if (op == "LogicalOr") return a != 0 || b != 0;
  return std::nullopt;
}

// Place in an array of `from` of element `i` of one of `to`, to which it broadcasts.
std::int64_t Place(std::int64_t i, const Dims& to, const Dims& from) {
  std::int64_t place = 0, step = 1;
  for (std::size_t k = 0; k < to.size(); ++k) {
    const std::size_t axis = to.size() - 1 - k;
    const std::int64_t at = i % to[axis];
    i /= to[axis];
    if (k >= from.size()) continue;
    const std::int64_t size = from[from.size() - 1 - k];
    if (size > 1) place += at * step;
    step *= size;
  }
  return place;
}

// Calls `each` with the places in both and collects; one element where both are of equal elements.
template <class Each>
bool ForEach(const Array& a, const Array& b, const Dims& shape, Each each) {
  const auto count = CountElements(shape);
  if (!count || a.stored() == 0 || b.stored() == 0) return false;
  if (a.is_uniform() && b.is_uniform()) return each(std::size_t{0}, std::size_t{0});
  if (*count > kMostKnownElements) return false;
  for (std::int64_t i = 0; i < *count; ++i) {
    if (!each(static_cast<std::size_t>(Place(i, shape, a.shape)), static_cast<std::size_t>(Place(i, shape, b.shape))))
      return false;
  }
  return true;
}

}  // namespace

std::optional<Array> FoldBinary(std::string_view op, const Array& a, const Array& b, const Dims& shape) {
  if (a.is_real() != b.is_real()) return std::nullopt;
  Array out{.dtype = a.dtype, .shape = shape};
  const bool is_done = ForEach(a, b, shape, [&](std::size_t i, std::size_t k) {
    if (a.is_real()) {
      const auto value = Reals(op, a.real(i), b.real(k));
      if (value) out.reals.push_back(*value);
      return value.has_value();
    }
    const auto value = Integers(op, a.integer(i), b.integer(k));
    if (value) out.integers.push_back(*value);
    return value.has_value();
  });
  return is_done ? std::optional(Simplified(std::move(out))) : std::nullopt;
}

std::optional<Array> FoldCompare(std::string_view op, const Array& a, const Array& b, const Dims& shape) {
  Array out{.dtype = DType::kBool, .shape = shape};
  const bool is_done = ForEach(a, b, shape, [&](std::size_t i, std::size_t k) {
    const auto value = Truth(op, a.number(i), b.number(k));
    if (value) out.integers.push_back(*value);
    return value.has_value();
  });
  return is_done ? std::optional(Simplified(std::move(out))) : std::nullopt;
}

std::optional<Array> FoldUnary(std::string_view op, const Array& a) {
  Array out = a;
  if (op == "Identity" || op == "StopGradient" || op == "Snapshot" || op == "PreventGradient") return out;
  if (op == "LogicalNot") {
    for (std::int64_t& value : out.integers) value = value == 0;
    return out;
  }
  if (op == "Neg") {
    for (double& value : out.reals) value = -value;
    for (std::int64_t& value : out.integers) {
      if (value == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
      value = -value;
    }
    return out;
  }
  if (!a.is_real()) return std::nullopt;
  for (double& value : out.reals) {
    if (op == "Sqrt")
      value = std::sqrt(value);
    else if (op == "Rsqrt")
      value = 1 / std::sqrt(value);
    else if (op == "Square")
      value *= value;
    else if (op == "Floor")
      value = std::floor(value);
    else
      return std::nullopt;
  }
  return out;
}

std::optional<Array> FoldCast(const Array& a, DType dtype) {
  Array out{.dtype = dtype, .shape = a.shape};
  for (std::size_t i = 0; i < a.stored(); ++i) {
    if (out.is_real()) {
      out.reals.push_back(a.number(i));
      continue;
    }
    const double value = a.number(i);
    if (a.is_real() && !(std::abs(value) < 9e18)) return std::nullopt;
    const std::int64_t whole = a.is_real() ? static_cast<std::int64_t>(value) : a.integer(i);
    out.integers.push_back(dtype == DType::kBool ? whole != 0 : whole);
  }
  return out;
}

std::optional<Array> FoldReduction(std::string_view op, const Array& a, const Dims& shape) {
  const auto count = CountElements(a.shape), kept = CountElements(shape);
  if (!count || kept != 1 || *count > kMostKnownElements || a.stored() == 0) return std::nullopt;
  if (op != "Prod" && op != "Sum" && op != "Max" && op != "Min" && op != "All" && op != "Any") return std::nullopt;
  Array out{.dtype = a.dtype, .shape = shape};
  double real = op == "Prod" ? 1 : 0;
  std::int64_t whole = op == "Prod" || op == "All" ? 1 : 0;
  for (std::int64_t k = 0; k < *count; ++k) {
    const auto i = static_cast<std::size_t>(k);
    if (a.is_real()) {
      const double value = a.real(i);
      real = op == "Prod"  ? real * value
             : op == "Sum" ? real + value
             : k == 0      ? value
             : op == "Max" ? std::max(real, value)
                           : std::min(real, value);
      continue;
    }
    const std::int64_t value = a.integer(i);
    if (op == "Max" || op == "Min") {
      whole = k == 0 ? value : op == "Max" ? std::max(whole, value) : std::min(whole, value);
    } else if (op == "All" || op == "Any") {
      whole = op == "All" ? whole && value : whole || value;
    } else {
      const auto next = Integers(op == "Prod" ? "Mul" : "Add", whole, value);
      if (!next) return std::nullopt;
      whole = *next;
    }
  }
  if (out.is_real()) out.reals = {real};
  if (!out.is_real()) out.integers = {whole};
  return out;
}

Array Reshaped(Array array, Dims shape) {
  array.shape = std::move(shape);
  return array;
}

}  // namespace ebbtide::model::tensorflow
