// Goes by code points of UTF-8, never by locale.
#include "report/text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ebbtide::report {
namespace {

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Length of the UTF-8 sequence at the start of `text`; 0 where it is not one, or is a control character.
std::size_t PrintableSequence(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x20 || first == 0x7F) return 0;
  if (first < 0x80) return 1;
  std::size_t length = 0;
  char32_t code = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2, code = first & 0x1F;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3, code = first & 0x0F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4, code = first & 0x07;
  } else {
    return 0;
  }
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!Continues(text[i])) return 0;
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  const bool control = code < 0xA0;                            // C1 controls
  const bool reorders = (code >= 0x200E && code <= 0x200F) ||  // marks, embeddings and isolates that make
                        (code >= 0x2028 && code <= 0x202E) ||  // text look like other text, and the two
                        (code >= 0x2066 && code <= 0x2069);    // Unicode line breaks
  if (code < kSmallest[length] || code > 0x10FFFF || surrogate || control || reorders) return 0;
  return length;
}

constexpr int kLeastName = 4;  // columns for what stands around a line number

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Where ":1234" of "train.py:1234 in forward" is, by bytes: the first such, half-open. Empty: there is none.
std::pair<std::size_t, std::size_t> LineNumberIn(std::string_view text) {
  for (std::size_t at = text.find(':'); at != std::string_view::npos; at = text.find(':', at + 1)) {
    std::size_t end = at + 1;
    while (end < text.size() && IsDigit(text[end])) ++end;
    if (at > 0 && end > at + 1 && (end == text.size() || text[end] == ' ' || text[end] == ',')) return {at, end};
  }
  return {0, 0};
}

// Bytes of the escape sequence that `text` begins with; 0: it begins with none.
std::size_t EscapeSequence(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end == std::string_view::npos ? text.size() : end + 1;
}

// The byte at which the column `column` starts.
std::size_t ByteOfColumn(std::string_view text, int column) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!Continues(text[at]) && column-- == 0) break;
  }
  return at;
}

}  // namespace

int Columns(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return !Continues(c); }));
}

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = PrintableSequence(text);
    if (length == 0) {
      out += '?';
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string Shorten(std::string_view text, int columns, bool unicode) {
  const int width = Columns(text);
  if (width <= columns) return std::string(text);
  if (const auto [colon, end] = LineNumberIn(text); colon < end) {
    const std::string_view number = text.substr(colon, end - colon), behind = text.substr(end);
    const int room = columns - Columns(number);
    if (room >= kLeastName) {
      const int tail = std::min(Columns(behind), room / 2);
      const std::string last = Shorten(behind, tail, unicode);
      return Shorten(text.substr(0, colon), room - Columns(last), unicode) + std::string(number) + last;
    }
  }
  const std::string_view mark = unicode ? "…" : "~";
  if (columns <= 1) return columns == 1 ? std::string(mark) : std::string();
  const int tail = columns / 2;
  const int head = columns - 1 - tail;
  std::string out(text.substr(0, ByteOfColumn(text, head)));
  out += mark;
  out += text.substr(ByteOfColumn(text, width - tail));
  return out;
}

std::string PadLeft(std::string_view text, int columns) {
  return std::string(static_cast<std::size_t>(std::max(0, columns - Columns(text))), ' ') + std::string(text);
}

std::string PadRight(std::string_view text, int columns) {
  return std::string(text) + std::string(static_cast<std::size_t>(std::max(0, columns - Columns(text))), ' ');
}

std::vector<std::string> Wrap(std::string_view text, int columns) {
  std::vector<std::string> lines(1);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (lines.back().empty()) {
      lines.back() = word;
    } else if (Columns(lines.back()) + 1 + Columns(word) <= columns) {
      lines.back() += ' ';
      lines.back() += word;
    } else {
      lines.emplace_back(word);
    }
    begin = end + 1;
  }
  return lines;
}

std::vector<std::string> WrapNames(std::string_view text, int columns, bool unicode) {
  std::string shortened;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    shortened += Shorten(text.substr(begin, end - begin), columns, unicode);
    if (end < text.size()) shortened += ' ';
    begin = end + 1;
  }
  return Wrap(shortened, columns);
}

namespace {

// The line in parts of at most `columns`, broken at spaces; escape sequences take no column.
std::string Broken(std::string_view line, int columns) {
  const std::size_t gap = line.find("  ", line.find_first_not_of(' '));
  const std::size_t column =
      gap == std::string_view::npos ? 2 : std::min(line.find_first_not_of(' ', gap), line.size());
  const std::string indent(static_cast<int>(column) <= columns / 2 ? column : 2, ' ');
  std::string out;
  int used = 0;           // columns of the part that is being written
  std::size_t space = 0;  // behind the last space of it, in `out`; 0: it has none
  int used_at_space = 0;
  for (std::size_t at = 0; at < line.size();) {
    if (const std::size_t escape = EscapeSequence(line.substr(at)); escape > 0) {
      out += line.substr(at, escape);
      at += escape;
      continue;
    }
    if (!Continues(line[at])) {
      if (used == columns && space > 0) {
        out.erase(space - 1, 1);  // the space itself
        out.insert(space - 1, "\n" + indent);
        used += static_cast<int>(indent.size()) - used_at_space;
        space = 0;
      }
      ++used;
    }
    out += line[at];
    if (line[at] == ' ' && used > static_cast<int>(indent.size()) + 1) {
      space = out.size();
      used_at_space = used;
    }
    ++at;
  }
  return out;
}

}  // namespace

std::string FitLines(std::string_view text, int columns) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    out += Columns(line) <= columns ? std::string(line) : Broken(line, columns);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string WithSeparators(std::int64_t number) {
  std::string digits = fmt::format("{}", number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

}  // namespace ebbtide::report
