// Reads and applies the rules of EBBTIDE_PHANTOM_FAIL.
#include "phantom/core/faults.h"

#include <charconv>

#include "base/json_text.h"
#include "phantom/core/mix.h"

namespace ebbtide::phantom {
namespace {

template <class T>
bool ParseNumber(std::string_view text, T& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

Code DefaultCode(std::string_view call) {
  for (std::string_view part : {"Malloc", "Alloc", "MemCreate", "MemMap", "AddressReserve", "Create"})
    if (call.find(part) != std::string_view::npos) return Code::kOutOfMemory;
  return Code::kUnknown;
}

Result<FaultRule> ParseRule(std::string_view text) {
  FaultRule rule;
  std::string_view rest = text;
  std::string_view word;
  if (std::size_t at = rest.find('='); at != std::string_view::npos) {
    word = rest.substr(at + 1);
    rest = rest.substr(0, at);
    std::optional<Code> code = CodeFromWord(word);
    if (!code)
      return Fail(
          "{}: expected out_of_memory, lost_device, illegal_address, map_failed, not_supported, invalid_value, "
          "unknown or a number after '='",
          Quoted(text));
    rule.code = *code;
  }
  if (std::size_t at = rest.find_first_of("@%"); at != std::string_view::npos) {
    std::string_view when = rest.substr(at + 1);
    bool good = false;
    if (rest[at] == '%') {
      good = ParseNumber(when, rule.probability) && rule.probability >= 0 && rule.probability <= 1;
    } else {
      if (when.ends_with('+')) {
        rule.later_too = true;
        when.remove_suffix(1);
      }
      good = ParseNumber(when, rule.number) && rule.number >= 1;
    }
    if (!good) return Fail("{}: expected CALL@NUMBER from 1 or CALL%PROBABILITY from 0 to 1", Quoted(text));
    rest = rest.substr(0, at);
  } else {
    rule.number = 1;
    rule.later_too = true;
  }
  if (rest.ends_with('*')) {
    rule.prefix = true;
    rest.remove_suffix(1);
  }
  for (char c : rest)
    if (!(c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
      return Fail("{}: expected the name of a call, as cuMemMap", Quoted(text));
  if (rest.empty() && !rule.prefix) return Fail("{}: expected the name of a call, as cuMemMap", Quoted(text));
  rule.call = rest;
  if (word.empty()) rule.code = DefaultCode(rest);
  return rule;
}

}  // namespace

bool FaultRule::Matches(std::string_view name) const { return prefix ? name.starts_with(call) : name == call; }

bool FaultRule::Fires(std::string_view name, std::int64_t call_number, std::uint64_t seed) const {
  if (probability < 0) return later_too ? call_number >= number : call_number == number;
  std::uint64_t mixed = MixBits(seed, static_cast<std::uint64_t>(call_number));
  for (char c : name) mixed = MixBits(mixed, static_cast<unsigned char>(c));
  return static_cast<double>(mixed >> 11) * 0x1p-53 < probability;
}

Result<std::vector<FaultRule>> ParseFaults(std::string_view text) {
  std::vector<FaultRule> rules;
  while (!text.empty()) {
    std::size_t comma = text.find(',');
    EBB_ASSIGN_OR_RETURN(FaultRule rule, ParseRule(text.substr(0, comma)));
    rules.push_back(std::move(rule));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return rules;
}

}  // namespace ebbtide::phantom
