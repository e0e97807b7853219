// Text measured in columns, and text from files made safe to show.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ebbtide::report {

// Columns the text takes: its code points. Wide and combining characters count one, as names of layers have none.
int Columns(std::string_view text);

// Names come from files that others wrote: control characters and bytes that are not UTF-8 become '?', so that a
// name can neither move the cursor nor break a line.
std::string Printable(std::string_view text);

// At most `columns` wide; what does not fit is cut from the middle, since names differ at both ends. A line number, as
// that of "train.py:31 in forward", stays whole where there is any room beside it.
std::string Shorten(std::string_view text, int columns, bool unicode);

// Filled up with spaces to `columns`.
std::string PadLeft(std::string_view text, int columns);
std::string PadRight(std::string_view text, int columns);

// Lines of at most `columns`, broken at spaces; a longer word has a line of its own. At least one line.
std::vector<std::string> Wrap(std::string_view text, int columns);

// The same for text with names in it: a word that is wider than a line is shortened.
std::vector<std::string> WrapNames(std::string_view text, int columns, bool unicode);

// The text with every line that is wider than `columns` broken at spaces, and continued below its second column where
// it has one ("label  text"). A word that is wider by itself stays whole. Escape sequences of colours take no room.
std::string FitLines(std::string_view text, int columns);

// "25,557,032".
std::string WithSeparators(std::int64_t number);

}  // namespace ebbtide::report
