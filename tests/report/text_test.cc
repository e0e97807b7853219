// Widths in columns, and names from files that must not disturb the terminal.
#include "report/text/text.h"

#include <gtest/gtest.h>

#include <limits>

namespace ebbtide::report {
namespace {

TEST(Columns, CountsCodePoints) {
  EXPECT_EQ(Columns(""), 0);
  EXPECT_EQ(Columns("conv1"), 5);
  EXPECT_EQ(Columns("█▁é"), 3);  // 3 + 3 + 2 bytes
}

TEST(Printable, KeepsTextAndUnicode) {
  EXPECT_EQ(Printable("layer1.0.conv1"), "layer1.0.conv1");
  EXPECT_EQ(Printable("größe 層 😀"), "größe 層 😀");
}

TEST(Printable, DisarmsEscapeSequencesAndLineBreaks) {
  EXPECT_EQ(Printable("a\x1b[2Jb"), "a?[2Jb");
  EXPECT_EQ(Printable("a\nb\rc\td\x7f"), "a?b?c?d?");
  EXPECT_EQ(Printable(std::string("a\0b", 3)), "a?b");
  EXPECT_EQ(Printable("\xC2\x9B"
                      "31m"),
            "??31m");  // U+009B, the one-character CSI
  EXPECT_EQ(Printable("\xE2\x80\xAE"
                      "evil"),
            "???evil");  // U+202E, right-to-left override
}

TEST(Printable, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(Printable("a\xff\xfe"), "a??");
  EXPECT_EQ(Printable("\xC3"), "?");                 // cut short
  EXPECT_EQ(Printable("\xC0\xAF"), "??");            // overlong '/'
  EXPECT_EQ(Printable("\xED\xA0\x80"), "???");       // a surrogate
  EXPECT_EQ(Printable("\xF4\x90\x80\x80"), "????");  // beyond U+10FFFF
}

TEST(Shorten, CutsFromTheMiddle) {
  EXPECT_EQ(Shorten("layer1.0.conv1", 14, true), "layer1.0.conv1");
  EXPECT_EQ(Shorten("layer1.0.conv1", 9, true), "laye…onv1");  // 4 + 1 + 4
  EXPECT_EQ(Shorten("layer1.0.conv1", 9, false), "laye~onv1");
  EXPECT_EQ(Shorten("ääöö", 3, true), "ä…ö");
  EXPECT_EQ(Shorten("abc", 1, true), "…");
  EXPECT_EQ(Shorten("abc", 0, true), "");
}

TEST(Pad, FillsColumnsNotBytes) {
  EXPECT_EQ(PadLeft("é", 3), "  é");
  EXPECT_EQ(PadRight("é", 3), "é  ");
  EXPECT_EQ(PadRight("long", 3), "long");
}

TEST(Wrap, BreaksAtSpaces) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(Wrap("one two three", 7), (Lines{"one two", "three"}));
  EXPECT_EQ(Wrap("one two three", 13), (Lines{"one two three"}));
  EXPECT_EQ(Wrap("a verylongword b", 5), (Lines{"a", "verylongword", "b"}));
  EXPECT_EQ(Wrap("", 5), (Lines{""}));
  EXPECT_EQ(WrapNames("12 MiB of encoder.layer.weight (update)", 12, true),
            (Lines{"12 MiB of", "encod…weight", "(update)"}));
}

TEST(WithSeparators, GroupsByThousands) {
  EXPECT_EQ(WithSeparators(0), "0");
  EXPECT_EQ(WithSeparators(999), "999");
  EXPECT_EQ(WithSeparators(1000), "1,000");
  EXPECT_EQ(WithSeparators(25557032), "25,557,032");
  EXPECT_EQ(WithSeparators(-100), "-100");
  EXPECT_EQ(WithSeparators(-1000), "-1,000");
  EXPECT_EQ(WithSeparators(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(Shorten, KeepsLineNumbersWhole) {
  EXPECT_EQ(Shorten("models/transformers/attention.py:1234 in forward", 24, true), "mode…on.py:1234 in …ward");
  EXPECT_EQ(Shorten("a/very/long/path/train.py:31", 12, true), "a/ve…n.py:31");
  for (int columns = 9; columns < 60; ++columns) {
    const std::string text = Shorten("models/transformers/attention.py:1234 in forward", columns, true);
    EXPECT_LE(Columns(text), columns);
    EXPECT_NE(text.find(":1234"), std::string::npos) << text;
  }
}

TEST(FitLines, BreaksAtSpacesBelowTheSecondColumn) {
  EXPECT_EQ(FitLines("safe  25.26 GiB, meant to be enough\nx\n", 20),
            "safe  25.26 GiB,\n      meant to be\n      enough\nx\n");
  EXPECT_EQ(FitLines("fits\n", 20), "fits\n");
  EXPECT_EQ(FitLines(std::string(30, 'x'), 20), std::string(30, 'x'));  // no place to break it
}

TEST(FitLines, OverlooksColours) {
  EXPECT_EQ(FitLines("\x1b[1mfour five\x1b[0m six", 13), "\x1b[1mfour five\x1b[0m six");
  EXPECT_EQ(FitLines("\x1b[1mfour five\x1b[0m seven", 13), "\x1b[1mfour five\x1b[0m\n  seven");
}

}  // namespace
}  // namespace ebbtide::report
