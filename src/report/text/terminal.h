// What output goes to: how wide it is, and whether it takes colours and block characters.
#pragma once

#include <string>
#include <string_view>

namespace ebbtide::report {

struct Terminal {
  bool interactive = false;  // a person is watching: progress may be shown
  bool color = false;
  bool unicode = true;
  int width = 80;  // columns
};

// Of a file descriptor. Colour: on a terminal other than "dumb", unless NO_COLOR is set. Width: COLUMNS, else the
// terminal's own, else 80. Block characters: unless the locale is set to one that is not UTF-8.
Terminal DescribeTerminal(int descriptor);

enum class Style { kBold, kDim, kBlue, kRed };

// The text in that style, or as it is where there is no colour.
std::string Paint(Style style, std::string_view text, const Terminal& terminal);

}  // namespace ebbtide::report
