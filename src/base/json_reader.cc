// One pass over the text; place, line and column are worked out only for an error.
#include "base/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cctype>
#include <charconv>
#include <utility>

#include "base/json_text.h"

namespace ebbtide {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Characters that stand for themselves in a string: no escape, no end, no check needed.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (int c = 0x20; c < 0x80; ++c) plain[static_cast<std::size_t>(c)] = c != '"' && c != '\\';
  return plain;
}();

// A key that can be shown as it is, without quotes.
bool IsShortWord(std::string_view key) {
  const auto in_word = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !key.empty() && key.size() <= 60 && std::all_of(key.begin(), key.end(), in_word);
}

void AppendUtf8(std::string& out, std::uint32_t code) {
  const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  const auto tail = [&](int shift) { put(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    tail(6), tail(0);
  } else {
    put(0xF0 | (code >> 18));
    tail(12), tail(6), tail(0);
  }
}

// Length of the number that `text` begins with, by JSON's grammar; 0 where it is none.
std::size_t NumberLength(std::string_view text, bool& is_integer) {
  std::size_t i = 0;
  const auto at = [&](std::size_t k) { return k < text.size() ? text[k] : '\0'; };
  const auto digits = [&] {
    const std::size_t begin = i;
    while (IsDigit(at(i))) ++i;
    return i > begin;
  };
  is_integer = true;
  if (at(i) == '-') ++i;
  if (at(i) == '0') {
    ++i;
  } else if (!digits()) {
    return 0;
  }
  if (at(i) == '.') {
    is_integer = false;
    ++i;
    if (!digits()) return 0;
  }
  if (at(i) == 'e' || at(i) == 'E') {
    is_integer = false;
    ++i;
    if (at(i) == '+' || at(i) == '-') ++i;
    if (!digits()) return 0;
  }
  return i;
}

}  // namespace

JsonReader::JsonReader(std::string_view text) : text_(text) {
  if (text_.starts_with(kByteOrderMark)) position_ = kByteOrderMark.size();
}

void JsonReader::SkipBlanks() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') break;
    ++position_;
  }
}

bool JsonReader::Take(char c) {
  SkipBlanks();
  if (position_ >= text_.size() || text_[position_] != c) return false;
  ++position_;
  return true;
}

JsonReader::Type JsonReader::Peek() {
  if (!ok()) return Type::kNone;
  SkipBlanks();
  if (position_ >= text_.size()) return Type::kNone;
  const char c = text_[position_];
  switch (c) {
    case '{': return Type::kObject;
    case '[': return Type::kList;
    case '"': return Type::kString;
    case 'n': return Type::kNull;
    case 't':
    case 'f': return Type::kBool;
    default: return IsDigit(c) || c == '-' ? Type::kNumber : Type::kNone;
  }
}

bool JsonReader::Begin(char bracket, std::string_view expected) {
  if (!ok()) return false;
  SkipBlanks();
  value_ = position_;
  if (!Take(bracket)) {
    FailExpected(expected);
    return false;
  }
  if (depth_ == kDeepest) {
    FailAt(value_, fmt::format("nested deeper than {} levels", kDeepest));
    return false;
  }
  Frame& frame = frames_[depth_++];
  frame.is_object = bracket == '{';
  frame.any = false;
  frame.item = -1;
  frame.key = {};
  return true;
}

void JsonReader::BeginObject(std::string_view expected) { Begin('{', expected); }
void JsonReader::BeginList(std::string_view expected) { Begin('[', expected); }

// Whether another key or item follows in the innermost object or list; its end is consumed.
bool JsonReader::NextInFrame(char close) {
  if (!ok()) return false;
  assert(depth_ > 0);
  if (Take(close)) {
    value_ = position_ - 1;
    --depth_;
    return false;
  }
  if (Top().any && !Take(',')) {
    FailExpected(close == ']' ? "',' or ']'" : "',' or '}'");
    return false;
  }
  Top().any = true;
  return true;
}

bool JsonReader::NextItem() {
  if (!NextInFrame(']')) return false;
  ++Top().item;
  return true;
}

bool JsonReader::NextKey() {
  if (!NextInFrame('}')) return false;
  Top().key = {};
  if (Peek() != Type::kString) {
    FailExpected("a key in quotes");
    return false;
  }
  value_ = position_;
  Frame& frame = Top();
  frame.key = ScanString(frame.unescaped);
  if (ok() && !Take(':')) FailExpected("':'");
  return ok();
}

void JsonReader::Null() {
  if (!ok()) return;
  SkipBlanks();
  value_ = position_;
  if (!text_.substr(position_).starts_with("null")) return FailExpected("null");
  position_ += 4;
}

bool JsonReader::Bool(std::string_view expected) {
  if (!ok()) return false;
  SkipBlanks();
  value_ = position_;
  const bool value = text_.substr(position_).starts_with("true");
  if (!value && !text_.substr(position_).starts_with("false")) {
    FailExpected(expected);
    return false;
  }
  position_ += value ? 4 : 5;
  return value;
}

std::string_view JsonReader::String(std::string_view expected) {
  if (Peek() != Type::kString) {
    FailExpected(expected);
    return {};
  }
  value_ = position_;
  return ScanString(scratch_);
}

JsonReader::Number JsonReader::AnyNumber(std::string_view expected) {
  Number number;
  if (Peek() != Type::kNumber) {
    FailExpected(expected);
    return number;
  }
  value_ = position_;
  const std::size_t length = NumberLength(text_.substr(position_), number.is_integer);
  if (length == 0) {
    FailExpected(expected);
    return {};
  }
  const char* begin = text_.data() + position_;
  const char* end = begin + length;
  position_ += length;
  if (number.is_integer && std::from_chars(begin, end, number.integer).ec != std::errc()) {
    FailLast("an integer of at most 64 bits");
    return {};
  }
  if (number.is_integer) {
    number.real = *begin == '-' && number.integer == 0 ? -0.0 : static_cast<double>(number.integer);
  } else if (std::from_chars(begin, end, number.real).ec != std::errc()) {
    FailLast("a number in the range of a double");
    return {};
  }
  return number;
}

std::int64_t JsonReader::Integer(std::string_view expected, std::int64_t least, std::int64_t most) {
  const Number number = AnyNumber(expected);
  if (!ok()) return 0;
  if (number.is_integer && number.integer >= least && number.integer <= most) return number.integer;
  FailLast(expected);
  return 0;
}

double JsonReader::Float(std::string_view expected) {
  const Number number = AnyNumber(expected);
  if (ok() && number.is_integer) FailLast(fmt::format("{} (with a point or an exponent)", expected));
  return number.real;
}

// The string that begins at the present position. The result refers to the text, or to `unescaped`.
std::string_view JsonReader::ScanString(std::string& unescaped) {
  const std::size_t begin = ++position_;
  std::size_t pending = begin;  // what is not yet in `unescaped`
  bool escaped = false;
  while (true) {
    while (position_ < text_.size() && kPlain[static_cast<unsigned char>(text_[position_])]) ++position_;
    if (position_ == text_.size()) {
      FailAt(position_, "expected '\"', found the end of the text");
      return {};
    }
    const auto c = static_cast<unsigned char>(text_[position_]);
    if (c == '"') break;
    if (c >= 0x80) {
      const std::size_t length = Utf8CharacterLength(text_.substr(position_));
      if (length == 0) {
        FailAt(position_, fmt::format("expected UTF-8, found the byte 0x{:02x}", c));
        return {};
      }
      position_ += length;
    } else if (c == '\\') {
      if (!std::exchange(escaped, true)) unescaped.clear();
      unescaped += text_.substr(pending, position_ - pending);
      if (!Unescape(unescaped)) return {};
      pending = position_;
    } else {
      FailAt(position_, fmt::format("expected \\u{:04x}, found that control character unescaped", c));
      return {};
    }
  }
  const std::string_view rest = text_.substr(pending, position_ - pending);
  ++position_;
  if (!escaped) return rest;
  unescaped += rest;
  return unescaped;
}

std::optional<std::uint32_t> JsonReader::FourHexDigits() {
  const std::string_view digits = text_.substr(std::min(position_, text_.size()), 4);
  std::uint32_t code = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (digits.size() < 4 || error != std::errc() || end != digits.data() + 4) return std::nullopt;
  position_ += 4;
  return code;
}

// The escape at the present position.
bool JsonReader::Unescape(std::string& unescaped) {
  constexpr std::string_view kShort = "\"\\/bfnrt";
  constexpr std::string_view kMeaning = "\"\\/\b\f\n\r\t";
  const std::size_t begin = position_;
  const char c = begin + 1 < text_.size() ? text_[begin + 1] : '\0';
  position_ += 2;
  if (const std::size_t i = kShort.find(c); i != std::string_view::npos) {
    unescaped += kMeaning[i];
    return true;
  }
  auto code = c == 'u' ? FourHexDigits() : std::nullopt;
  if (code && *code >= 0xD800 && *code < 0xDC00 && text_.substr(position_, 2) == "\\u") {
    position_ += 2;
    const auto low = FourHexDigits();
    code = low && *low >= 0xDC00 && *low < 0xE000 ? 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00) : 0xD800;
  }
  if (code && !(*code >= 0xD800 && *code < 0xE000)) {
    AppendUtf8(unescaped, *code);
    return true;
  }
  FailAt(begin, "expected an escape of JSON (\\n, \\u00e9, a pair of surrogates)");
  return false;
}

void JsonReader::End() {
  if (!ok()) return;
  assert(depth_ == 0);
  SkipBlanks();
  if (position_ < text_.size()) FailExpected("the end of the text");
}

void JsonReader::FailLast(std::string_view expected) {
  FailAt(value_, fmt::format("expected {}, found {}", expected, Found(value_)));
}

void JsonReader::FailWith(std::string_view message) { FailAt(value_, std::string(message)); }

void JsonReader::FailExpected(std::string_view expected) {
  if (!ok()) return;
  SkipBlanks();
  FailAt(position_, fmt::format("expected {}, found {}", expected, Found(position_)));
}

void JsonReader::FailAt(std::size_t position, std::string message) {
  if (!ok()) return;
  const std::string_view before = text_.substr(0, position);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t column = position - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  const std::string place = Place();
  error_ = Error{fmt::format("{}{}{} (line {}, column {})", place, place.empty() ? "" : ": ", message, line, column)};
}

// The value at a position, for a message.
std::string JsonReader::Found(std::size_t position) const {
  const std::string_view rest = text_.substr(std::min(position, text_.size()));
  if (rest.empty()) return "the end of the text";
  if (rest[0] == '{') return "an object";
  if (rest[0] == '[') return "a list";
  if (rest[0] == '"') return Quoted(rest.substr(1, std::min(rest.find('"', 1), rest.size()) - 1));
  constexpr std::size_t kLongest = 40;
  const auto word = std::find_if_not(
      rest.begin(), rest.end(), [](unsigned char c) { return std::isalnum(c) || c == '+' || c == '-' || c == '.'; });
  const auto length = static_cast<std::size_t>(word - rest.begin());
  if (length == 0) return Quoted(rest.substr(0, std::max<std::size_t>(Utf8CharacterLength(rest), 1)));
  return std::string(rest.substr(0, std::min(length, kLongest))) + (length > kLongest ? "..." : "");
}

std::string JsonReader::Place() const {
  std::string place;
  for (std::size_t i = 0; i < depth_; ++i) {
    const Frame& frame = frames_[i];
    if (!frame.any || (frame.is_object && frame.key.data() == nullptr)) continue;
    if (!frame.is_object) {
      place += fmt::format("[{}]", frame.item);
    } else if (IsShortWord(frame.key)) {
      place += place.empty() ? "" : ".";
      place += frame.key;
    } else {
      place += "[" + Quoted(frame.key) + "]";
    }
  }
  return place;
}

}  // namespace ebbtide
