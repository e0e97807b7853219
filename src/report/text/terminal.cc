// Asks the environment first, then the system.
#include "report/text/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace ebbtide::report {
namespace {

constexpr int kNarrowest = 40;
constexpr int kWidest = 200;

std::string_view Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

int Width(int descriptor) {
  const std::string_view columns = Environment("COLUMNS");
  int width = 0;
  const auto [end, error] = std::from_chars(columns.data(), columns.data() + columns.size(), width);
  if (error != std::errc() || end != columns.data() + columns.size() || width <= 0) {
    winsize size{};
    width = ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  }
  return std::clamp(width, kNarrowest, kWidest);
}

// The locale as setlocale would choose it. Unset says nothing, and most terminals are UTF-8.
bool LocaleTakesUnicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view locale = Environment(name);
    if (locale.empty()) continue;
    for (const char* encoding : {"UTF-8", "utf-8", "UTF8", "utf8"}) {
      if (locale.find(encoding) != std::string_view::npos) return true;
    }
    return false;
  }
  return true;
}

}  // namespace

Terminal DescribeTerminal(int descriptor) {
  Terminal terminal;
  terminal.interactive = isatty(descriptor) == 1;
  terminal.color = terminal.interactive && Environment("NO_COLOR").empty() && Environment("TERM") != "dumb";
  terminal.unicode = LocaleTakesUnicode();
  terminal.width = Width(descriptor);
  return terminal;
}

std::string Paint(Style style, std::string_view text, const Terminal& terminal) {
  if (!terminal.color || text.empty()) return std::string(text);
  int code = 0;
  switch (style) {
    case Style::kBold: code = 1; break;
    case Style::kDim: code = 2; break;
    case Style::kBlue: code = 34; break;
    case Style::kRed: code = 31; break;
  }
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

}  // namespace ebbtide::report
