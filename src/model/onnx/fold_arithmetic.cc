// Element-wise arithmetic and comparison of known arrays. What overflows stays unknown.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "model/onnx/fold.h"

namespace ebbtide::model::onnx {
namespace {

using Integer = std::int64_t;
using IntegerResult = std::optional<Integer>;

struct BinaryRow {
  IntegerResult (*integers)(Integer, Integer);
  double (*reals)(double, double);
  bool gives_bool = false;
};

IntegerResult Quotient(Integer a, Integer b) {
  if (b == 0 || (b == -1 && a == INT64_MIN)) return std::nullopt;
  return a / b;
}

IntegerResult Remainder(Integer a, Integer b) {
  if (b == 0 || b == -1) return b == 0 ? IntegerResult() : IntegerResult(0);
  const Integer rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

IntegerResult Power(Integer base, Integer exponent) {
  if (exponent < 0 || exponent > 64) return std::nullopt;
  IntegerResult out = 1;
  for (Integer i = 0; i < exponent && out; ++i) out = CheckedMul(*out, base);
  return out;
}

IntegerResult Difference(Integer a, Integer b) {
  Integer out;
  return __builtin_sub_overflow(a, b, &out) ? IntegerResult() : IntegerResult(out);
}

// clang-format off
const std::unordered_map<std::string_view, BinaryRow> kBinary = {
    {"Add", {CheckedAdd, [](double a, double b) { return a + b; }}},
    {"Sub", {Difference, [](double a, double b) { return a - b; }}},
    {"Mul", {CheckedMul, [](double a, double b) { return a * b; }}},
    {"Div", {Quotient, [](double a, double b) { return a / b; }}},
    {"Mod", {Remainder, [](double a, double b) { return std::fmod(a, b); }}},
    {"Pow", {Power, [](double a, double b) { return std::pow(a, b); }}},
    {"Min", {[](Integer a, Integer b) { return IntegerResult(std::min(a, b)); }, [](double a, double b) { return std::min(a, b); }}},
    {"Max", {[](Integer a, Integer b) { return IntegerResult(std::max(a, b)); }, [](double a, double b) { return std::max(a, b); }}},
    {"Equal", {[](Integer a, Integer b) { return IntegerResult(a == b); }, [](double a, double b) { return double(a == b); }, true}},
    {"Less", {[](Integer a, Integer b) { return IntegerResult(a < b); }, [](double a, double b) { return double(a < b); }, true}},
    {"LessOrEqual", {[](Integer a, Integer b) { return IntegerResult(a <= b); }, [](double a, double b) { return double(a <= b); }, true}},
    {"Greater", {[](Integer a, Integer b) { return IntegerResult(a > b); }, [](double a, double b) { return double(a > b); }, true}},
    {"GreaterOrEqual", {[](Integer a, Integer b) { return IntegerResult(a >= b); }, [](double a, double b) { return double(a >= b); }, true}},
    {"And", {[](Integer a, Integer b) { return IntegerResult(a && b); }, nullptr, true}},
    {"Or", {[](Integer a, Integer b) { return IntegerResult(a || b); }, nullptr, true}},
    {"Xor", {[](Integer a, Integer b) { return IntegerResult(!a != !b); }, nullptr, true}},
};

struct UnaryRow {
  IntegerResult (*integers)(Integer);
  double (*reals)(double);
  bool gives_bool = false;
};

const std::unordered_map<std::string_view, UnaryRow> kUnary = {
    {"Identity", {[](Integer a) { return IntegerResult(a); }, [](double a) { return a; }}},
    {"Neg", {[](Integer a) { return Difference(0, a); }, [](double a) { return -a; }}},
    {"Abs", {[](Integer a) { return a < 0 ? Difference(0, a) : IntegerResult(a); }, [](double a) { return std::fabs(a); }}},
    {"Sign", {[](Integer a) { return IntegerResult((a > 0) - (a < 0)); }, [](double a) { return double((a > 0) - (a < 0)); }}},
    {"Not", {[](Integer a) { return IntegerResult(!a); }, nullptr, true}},
    {"Floor", {nullptr, [](double a) { return std::floor(a); }}},
    {"Ceil", {nullptr, [](double a) { return std::ceil(a); }}},
    {"Round", {nullptr, [](double a) { return std::nearbyint(a); }}},
    {"Sqrt", {nullptr, [](double a) { return std::sqrt(a); }}},
    {"Exp", {nullptr, [](double a) { return std::exp(a); }}},
    {"Log", {nullptr, [](double a) { return std::log(a); }}},
    {"Reciprocal", {nullptr, [](double a) { return 1 / a; }}},
    {"IsNaN", {nullptr, [](double a) { return double(std::isnan(a)); }, true}},
};
// clang-format on

// Element of `from` that position i of a result of shape `to` reads when `from` is broadcast to it.
std::int64_t BroadcastSource(const Dims& from, const Dims& to, std::int64_t i) {
  std::int64_t source = 0, step = 1;
  for (std::size_t back = 1; back <= to.size(); ++back) {
    const std::int64_t size = to[to.size() - back];
    const std::int64_t at = i % size;
    i /= size;
    if (back > from.size()) continue;
    const std::int64_t own = from[from.size() - back];
    if (own != 1) source += at * step;
    step *= own;
  }
  return source;
}

Folded FoldBinary(const BinaryRow& row, const Array& a, const Array& b) {
  const auto shape = Broadcast(a.shape, b.shape);
  if (!shape || a.is_real() != b.is_real()) return std::nullopt;
  const bool uniform = a.is_uniform() && b.is_uniform();
  const auto count = KnownCount(*shape, uniform);
  if (!count) return std::nullopt;
  Array out{.dtype = row.gives_bool ? DType::kBool : a.dtype, .shape = *shape};
  for (std::int64_t i = 0; i < (uniform ? std::min<std::int64_t>(*count, 1) : *count); ++i) {
    const std::int64_t at_a = uniform ? 0 : BroadcastSource(a.shape, *shape, i);
    const std::int64_t at_b = uniform ? 0 : BroadcastSource(b.shape, *shape, i);
    if (a.is_real()) {
      if (row.reals == nullptr) return std::nullopt;
      const double value = row.reals(a.real(at_a), b.real(at_b));
      row.gives_bool ? out.integers.push_back(value != 0) : out.reals.push_back(value);
    } else {
      const IntegerResult value = row.integers(a.integer(at_a), b.integer(at_b));
      if (!value) return std::nullopt;
      out.integers.push_back(*value);
    }
  }
  return Simplified(std::move(out));
}

Folded FoldUnary(const UnaryRow& row, const Array& a) {
  Array out{.dtype = row.gives_bool ? DType::kBool : a.dtype, .shape = a.shape};
  for (std::size_t i = 0; i < a.stored(); ++i) {
    if (a.is_real()) {
      if (row.reals == nullptr) return std::nullopt;
      const double value = row.reals(a.real(i));
      row.gives_bool ? out.integers.push_back(value != 0) : out.reals.push_back(value);
    } else {
      const IntegerResult value = row.integers ? row.integers(a.integer(i)) : std::nullopt;
      if (!value) return std::nullopt;
      out.integers.push_back(*value);
    }
  }
  return Simplified(std::move(out));
}

// Values of a pick between two arrays by a third.
Folded FoldWhere(const Array& condition, const Array& a, const Array& b) {
  const auto either = Broadcast(a.shape, b.shape);
  const auto shape = either ? Broadcast(condition.shape, *either) : std::nullopt;
  if (!shape || condition.is_real() || a.is_real() != b.is_real()) return std::nullopt;
  if (condition.is_uniform()) {
    const Array& chosen = condition.integer(0) ? a : b;
    const auto count = KnownCount(*shape, chosen.is_uniform());
    if (!count) return std::nullopt;
    return Rearranged(chosen, *shape, *count, [&](std::int64_t i) { return BroadcastSource(chosen.shape, *shape, i); });
  }
  const auto count = KnownCount(*shape, false);
  if (!count) return std::nullopt;
  Array out{.dtype = a.dtype, .shape = *shape};
  for (std::int64_t i = 0; i < *count; ++i) {
    const Array& chosen = condition.integer(BroadcastSource(condition.shape, *shape, i)) ? a : b;
    const std::int64_t at = BroadcastSource(chosen.shape, *shape, i);
    chosen.is_real() ? out.reals.push_back(chosen.real(at)) : out.integers.push_back(chosen.integer(at));
  }
  return Simplified(std::move(out));
}

Folded FoldArithmetic(const Node& node, const KnownInputs& inputs) {
  for (const Array* input : inputs) {
    if (input == nullptr) return std::nullopt;
  }
  if (auto row = kUnary.find(node.op); row != kUnary.end() && inputs.size() == 1)
    return FoldUnary(row->second, *inputs[0]);
  if (node.op == "Where" && inputs.size() == 3) return FoldWhere(*inputs[0], *inputs[1], *inputs[2]);
  auto row = kBinary.find(node.op);
  if (row == kBinary.end() || inputs.empty()) return std::nullopt;
  Folded out = *inputs[0];  // Min and Max take any number
  for (std::size_t i = 1; i < inputs.size() && out; ++i) out = FoldBinary(row->second, *out, *inputs[i]);
  return out;
}

}  // namespace

FoldRule FindArithmeticRule(std::string_view op) {
  return kBinary.contains(op) || kUnary.contains(op) || op == "Where" ? FoldArithmetic : nullptr;
}

}  // namespace ebbtide::model::onnx
