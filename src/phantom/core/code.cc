// Words for the codes that faults are made of.
#include "phantom/core/code.h"

#include <charconv>
#include <utility>

namespace ebbtide::phantom {
namespace {

constexpr std::pair<std::string_view, Code> kWords[] = {
    {"out_of_memory", Code::kOutOfMemory},
    {"invalid_value", Code::kInvalidValue},
    {"not_supported", Code::kNotSupported},
    {"map_failed", Code::kMapFailed},
    {"invalid_handle", Code::kInvalidHandle},
    {"not_ready", Code::kNotReady},
    {"illegal_address", Code::kIllegalAddress},
    {"lost_device", Code::kLaunchFailed},
    {"unknown", Code::kUnknown},
};

}  // namespace

std::optional<Code> CodeFromWord(std::string_view word) {
  for (const auto& [name, code] : kWords)
    if (name == word) return code;
  int number = 0;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error == std::errc() && end == word.data() + word.size() && number > 0) return static_cast<Code>(number);
  return std::nullopt;
}

}  // namespace ebbtide::phantom
