// The names and values that --assume knows.
#include "cli/dryrun_assume.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ebbtide::cli {
namespace {

enum class Number { kNone, kShare, kAny, kWhole };

struct Assumption {
  std::string_view name;
  std::string_view words[2];
  Number number;
  std::string_view expected;
};

constexpr Assumption kAssumptions[] = {
    {"masks", {"true", "false"}, Number::kShare, "true, false or a share of 0 to 1"},
    {"experts", {"balanced", "first"}, Number::kNone, "balanced or first"},
    {"proposals", {"limit", ""}, Number::kShare, "limit or a share of 0 to 1"},
    {"values", {"", ""}, Number::kAny, "a number"},
    {"integers", {"", ""}, Number::kWhole, "a whole number"},
    {"gradients", {"finite", "infinite"}, Number::kNone, "finite or infinite"},
};

bool Accepts(const Assumption& assumption, std::string_view value) {
  for (const std::string_view word : assumption.words) {
    if (!word.empty() && value == word) return true;
  }
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || !std::isfinite(number)) return false;
  switch (assumption.number) {
    case Number::kNone: return false;
    case Number::kShare: return number >= 0 && number <= 1;
    case Number::kAny: return true;
    case Number::kWhole: return number == std::floor(number) && std::abs(number) <= 9e15;
  }
  return false;
}

}  // namespace

Result<std::string> ParseAssume(const std::vector<std::string>& given) {
  std::string all;
  for (const std::string& text : given) {
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      const std::string part = text.substr(at, end - at);
      at = end + 1;
      const std::size_t equals = part.find('=');
      if (equals == std::string::npos) return Fail("--assume: expected NAME=VALUE, found {}", part);
      const std::string name = part.substr(0, equals), value = part.substr(equals + 1);
      const Assumption* found = nullptr;
      for (const Assumption& assumption : kAssumptions) {
        if (assumption.name == name) found = &assumption;
      }
      if (found == nullptr) {
        return Fail("--assume: expected masks, experts, proposals, values, integers or gradients, found {}", name);
      }
      if (!Accepts(*found, value)) return Fail("--assume: {}: expected {}, found {}", name, found->expected, value);
      all += (all.empty() ? "" : ",") + part;
    }
  }
  return all;
}

}  // namespace ebbtide::cli
