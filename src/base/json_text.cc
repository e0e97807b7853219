// UTF-8 by hand and numbers by fmt, so that no locale has a say.
#include "base/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

namespace ebbtide {

std::size_t Utf8CharacterLength(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  const auto continues = [byte](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return text.empty() ? 0 : 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool overlong = lead == 0xF0 && byte(1) < 0x90;
    const bool beyond = lead == 0xF4 && byte(1) >= 0x90;
    return continues(1) && continues(2) && continues(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

bool IsUtf8(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  std::size_t i = 0;
  while (i < text.size()) {
    std::uint64_t eight = 0;
    if (const std::size_t rest = text.size() - i; rest >= 8) {
      std::memcpy(&eight, text.data() + i, 8);
    } else {
      std::memcpy(&eight, text.data() + i, rest);
    }
    if ((eight & kHighBits) == 0) {
      i += 8;
      continue;
    }
    const std::size_t length = Utf8CharacterLength(text.substr(i));
    if (length == 0) return false;
    i += length;
  }
  return true;
}

void AppendJsonString(std::string& out, std::string_view text) {
  out += '"';
  std::size_t plain = 0;  // where the part begins that needs no escape
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out += text.substr(plain, i - plain);
    plain = i + 1;
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default: fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
    }
  }
  out += text.substr(plain);
  out += '"';
}

void AppendJsonDouble(std::string& out, double value) {
  assert(std::isfinite(value));
  const std::size_t begin = out.size();
  fmt::format_to(std::back_inserter(out), "{}", value);
  if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";
}

void AppendInteger(std::string& out, std::int64_t value) {
  const fmt::format_int digits(value);
  out.append(digits.data(), digits.size());
}

std::string Quoted(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string shown;
  bool cut = false;
  while (!text.empty() && !cut) {
    const std::size_t length = Utf8CharacterLength(text);
    cut = shown.size() + std::max<std::size_t>(length, 1) > kLongest;
    if (cut) break;
    shown += length > 0 ? text.substr(0, length) : "?";
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  std::string out;
  AppendJsonString(out, shown);
  return cut ? out.insert(out.size() - 1, "...") : out;
}

}  // namespace ebbtide
