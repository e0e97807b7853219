// Tables keep to the terminal's width by shortening the columns that may be.
#include "report/text/table.h"

#include <gtest/gtest.h>

#include <sstream>

#include "report/text/text.h"

namespace ebbtide::report {
namespace {

TEST(Table, AlignsUnderItsTitles) {
  Table table({{.title = "kind"}, {.title = "count", .align = Align::kRight}});
  table.Add({"convolution", "53"});
  table.Add({"add", "160"});
  EXPECT_EQ(table.Render(Terminal{}),
            "kind         count\n"
            "convolution     53\n"
            "add            160\n");
}

TEST(Table, LeavesOutTitlesThatAreAllEmpty) {
  Table table({{.title = ""}, {.title = ""}});
  table.Add({"a", "b"});
  EXPECT_EQ(table.Render(Terminal{}, 2), "  a  b\n");
}

TEST(Table, ShrinksOnlyColumnsThatMayShrink) {
  Table table({{.title = "bytes", .align = Align::kRight}, {.title = "layer", .shrinks = true}});
  table.Add({"1,234,567,890", std::string(60, 'x')});
  // 13 for the bytes, 2 between: 25 of 40 columns are left for the layer.
  EXPECT_EQ(table.Render(Terminal{.width = 40}), "        bytes  layer\n1,234,567,890  xxxxxxxxxxxx…xxxxxxxxxxxx\n");
}

TEST(Table, ShrinksTheWidestFirst) {
  Table table({{.title = "a", .shrinks = true}, {.title = "b", .shrinks = true}});
  table.Add({std::string(50, 'x'), std::string(12, 'y')});
  std::istringstream lines(table.Render(Terminal{.width = 40}));
  std::string line;
  std::getline(lines, line);
  std::getline(lines, line);
  EXPECT_EQ(Columns(line), 40);
  EXPECT_TRUE(line.ends_with(std::string(12, 'y')));
}

TEST(Table, WrapsWordsAndNumbersInsteadOfCuttingThem) {
  Table table({{.title = ""}, {.title = "", .align = Align::kRight}, {.title = "", .wraps = true}});
  table.Add({"peak", "433.89 MiB", "58.4 % of plain, 743.20 MiB"});
  // 4 + 2 + 10 + 2 columns are taken: 22 of 40 are left.
  EXPECT_EQ(table.Render(Terminal{.width = 40}),
            "peak  433.89 MiB  58.4 % of plain,\n"
            "                  743.20 MiB\n");
}

TEST(Table, MakesParagraphsOfRowsThatDoNotFit) {
  Table table({{.title = "gpu"},
               {.title = "memory", .align = Align::kRight},
               {.title = "context", .align = Align::kRight},
               {.title = "bandwidth", .align = Align::kRight}});
  table.Add({"a100-40gb", "39.56 GiB", "349.00 MiB", "1555 GB/s"});
  EXPECT_EQ(table.Render(Terminal{.width = 40}),
            "gpu\n"
            "a100-40gb\n"
            "  memory 39.56 GiB, context 349.00 MiB,\n"
            "  bandwidth 1555 GB/s\n");
}

TEST(Table, MakesCellsPrintable) {
  Table table({{.title = ""}});
  table.Add({"a\x1b[31m\nb"});
  EXPECT_EQ(table.Render(Terminal{}), "a?[31m?b\n");
}

TEST(Table, PaintsTitlesOnlyWithColor) {
  Table table({{.title = "kind"}});
  table.Add({"add"});
  EXPECT_EQ(table.Render(Terminal{.color = true}), "\x1b[1mkind\x1b[0m\nadd\n");
}

}  // namespace
}  // namespace ebbtide::report
