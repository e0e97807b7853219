// Opcodes by the letters of Python's pickletools: ']' an empty list, '}' an empty dict, '(' a mark, 'e' and 'u' put
// what follows the mark into them, 'K' 'M' 'J' integers of 1, 2 and 4 bytes, 'X' a text, 'q' 'r' remember, 'h' 'j'
// recall.
#include "report/snapshot/pickle_writer.h"

#include <cassert>
#include <limits>

namespace ebbtide::report {

void PickleWriter::Number32(std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out_ += static_cast<char>(value >> shift & 0xFF);
}

void PickleWriter::Integer(std::int64_t value) {
  if (value >= 0 && value <= 0xFF) {
    out_ += 'K';
    out_ += static_cast<char>(value);
  } else if (value >= 0 && value <= 0xFFFF) {
    out_ += 'M';
    out_ += static_cast<char>(value & 0xFF);
    out_ += static_cast<char>(value >> 8);
  } else if (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max()) {
    out_ += 'J';
    Number32(static_cast<std::uint32_t>(value));
  } else {
    out_ += "\x8a\x08";  // LONG1: eight bytes, two's complement
    const auto bits = static_cast<std::uint64_t>(value);
    Number32(static_cast<std::uint32_t>(bits));
    Number32(static_cast<std::uint32_t>(bits >> 32));
  }
}

void PickleWriter::Text(std::string_view value) {
  const auto [known, is_new] = texts_.try_emplace(std::string(value), remembered_);
  if (!is_new) return Recall(known->second);
  assert(value.size() <= std::numeric_limits<std::uint32_t>::max());
  out_ += 'X';
  Number32(static_cast<std::uint32_t>(value.size()));
  out_ += value;
  Remember();
}

std::int64_t PickleWriter::Remember() {
  const std::int64_t number = remembered_++;
  if (number <= 0xFF) {
    out_ += 'q';
    out_ += static_cast<char>(number);
  } else {
    out_ += 'r';
    Number32(static_cast<std::uint32_t>(number));
  }
  return number;
}

void PickleWriter::Recall(std::int64_t number) {
  if (number <= 0xFF) {
    out_ += 'h';
    out_ += static_cast<char>(number);
  } else {
    out_ += 'j';
    Number32(static_cast<std::uint32_t>(number));
  }
}

}  // namespace ebbtide::report
