// Bytes and nanoseconds, exact integers everywhere, and arithmetic that notices overflow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ebbtide {

using Bytes = std::int64_t;
using Nanos = std::int64_t;

inline constexpr Bytes kKiB = 1024;
inline constexpr Bytes kMiB = 1024 * kKiB;
inline constexpr Bytes kGiB = 1024 * kMiB;

// nullopt on overflow.
inline std::optional<std::int64_t> CheckedMul(std::int64_t a, std::int64_t b) {
  std::int64_t out;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}
inline std::optional<std::int64_t> CheckedAdd(std::int64_t a, std::int64_t b) {
  std::int64_t out;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// The smallest multiple of `multiple` that is at least `value`. Neither is negative.
constexpr std::int64_t RoundUp(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Products of sizes that a user may choose freely: stay at kTooLarge instead of overflowing.
inline constexpr std::int64_t kTooLarge = std::int64_t{1} << 60;
inline std::int64_t SaturatingMul(std::int64_t a, std::int64_t b) {
  std::optional<std::int64_t> product = CheckedMul(a, b);
  return product && *product < kTooLarge ? *product : kTooLarge;
}

// "1.50 GiB", "512 B".
std::string FormatBytes(Bytes bytes);
// "12.35 ms", "12.3 us".
std::string FormatTime(Nanos time);
// "25.6 M", "4.09 G": decimal, for parameters and FLOPs.
std::string FormatCount(double count);
// "8GiB", "8G", "512 MiB", "12GB", "1024" (bytes). Units with an i, and a letter alone, are binary; GB is decimal.
Result<Bytes> ParseBytes(std::string_view text);

}  // namespace ebbtide
