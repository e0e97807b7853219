// Sizes and counts as people write and read them.
#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>

namespace ebbtide {
namespace {

struct Unit {
  std::string_view name;  // in lower case
  Bytes bytes;
};
constexpr std::array kUnits = {
    Unit{"", 1},
    Unit{"b", 1},
    Unit{"k", kKiB},
    Unit{"m", kMiB},
    Unit{"g", kGiB},
    Unit{"t", 1024 * kGiB},
    Unit{"kib", kKiB},
    Unit{"mib", kMiB},
    Unit{"gib", kGiB},
    Unit{"tib", 1024 * kGiB},
    Unit{"kb", 1'000},
    Unit{"mb", 1'000'000},
    Unit{"gb", 1'000'000'000},
    Unit{"tb", 1'000'000'000'000},
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string_view TakeDigits(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && IsDigit(text[count])) ++count;
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

void SkipSpaces(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
}

std::optional<Bytes> UnitNamed(std::string_view text) {
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  std::string lower;
  for (const unsigned char c : text) lower += static_cast<char>(std::tolower(c));
  for (const Unit& unit : kUnits) {
    if (unit.name == lower) return unit.bytes;
  }
  return std::nullopt;
}

// digits * unit / 10^(places of digits), rounded down; the digits are those after the point. Digits beyond a
// millionth of a millionth are worth less than a byte of any unit, and are not read.
Bytes FractionOf(Bytes unit, std::string_view digits) {
  constexpr std::size_t kPlaces = 12;
  __int128 numerator = 0;
  __int128 denominator = 1;
  for (const char digit : digits.substr(0, kPlaces)) {
    numerator = numerator * 10 + (digit - '0');
    denominator *= 10;
  }
  return static_cast<Bytes>(numerator * unit / denominator);
}

}  // namespace

std::string FormatBytes(Bytes bytes) {
  if (bytes > -kKiB && bytes < kKiB) return fmt::format("{} B", bytes);
  constexpr std::array kNames = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / static_cast<double>(kKiB);
  std::size_t unit = 0;
  // 1023.995 would be printed as 1024.00.
  while (std::abs(value) >= 1023.995 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kNames[unit]);
}

std::string FormatTime(Nanos time) {
  constexpr Nanos kMillisecond = 1'000'000;
  if (time == 0 || time >= kMillisecond) return fmt::format("{:.2f} ms", static_cast<double>(time) / 1e6);
  return fmt::format("{:.1f} us", static_cast<double>(time) / 1e3);
}

std::string FormatCount(double count) {
  constexpr std::array kNames = {"", " K", " M", " G", " T", " P", " E"};
  double value = count;
  std::size_t unit = 0;
  // 999.5 would be printed as 1000.
  while (std::abs(value) >= 999.5 && unit + 1 < kNames.size()) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0 && value == std::round(value)) return fmt::format("{:.0f}", value);
  const double size = std::abs(value);
  const int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", value, decimals, kNames[unit]);
}

Result<Bytes> ParseBytes(std::string_view text) {
  const auto fail = [text] {
    return Fail("'{}': expected a size such as 8GiB, 1.5GiB, 512 MiB, 12GB or 1024 (bytes)", text);
  };
  std::string_view rest = text;
  SkipSpaces(rest);
  const std::string_view whole_digits = TakeDigits(rest);
  std::string_view fraction_digits;
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    fraction_digits = TakeDigits(rest);
    if (fraction_digits.empty()) return fail();
  }
  if (whole_digits.empty()) return fail();
  SkipSpaces(rest);
  const std::optional<Bytes> unit = UnitNamed(rest);
  if (!unit) return fail();

  std::optional<Bytes> bytes = 0;
  for (const char digit : whole_digits) {
    if (bytes) bytes = CheckedMul(*bytes, 10);
    if (bytes) bytes = CheckedAdd(*bytes, digit - '0');
  }
  if (bytes) bytes = CheckedMul(*bytes, *unit);
  if (bytes) bytes = CheckedAdd(*bytes, FractionOf(*unit, fraction_digits));
  if (!bytes) return Fail("'{}': expected a size below 8 EiB", text);
  return *bytes;
}

}  // namespace ebbtide
