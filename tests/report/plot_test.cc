// Sampling keeps peaks; a plot shows them at full height.
#include "report/text/plot.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ebbtide::report {
namespace {

using Series = std::vector<std::int64_t>;

TEST(SampleMaxima, LeavesAShortSeriesAlone) { EXPECT_EQ(SampleMaxima({3, 1, 2}, 5), (Series{3, 1, 2})); }

TEST(SampleMaxima, KeepsAPeakOfOneOp) {
  Series values(1000, 1);
  values[777] = 9;
  const Series samples = SampleMaxima(values, 10);
  EXPECT_EQ(samples, (Series{1, 1, 1, 1, 1, 1, 1, 9, 1, 1}));
}

TEST(SampleMaxima, CoversEveryValueWhenTheCountDoesNotDivide) {
  Series values(7);
  for (std::size_t at = 0; at < values.size(); ++at) {
    std::fill(values.begin(), values.end(), 0);
    values[at] = 1;
    const Series samples = SampleMaxima(values, 3);
    EXPECT_EQ(std::count(samples.begin(), samples.end(), 1), 1) << at;
  }
}

TEST(Stretch, RepeatsEvenly) {
  EXPECT_EQ(Stretch({1, 2}, 4), (Series{1, 1, 2, 2}));
  EXPECT_EQ(Stretch({1, 2, 3}, 4), (Series{1, 1, 2, 3}));
  EXPECT_EQ(Stretch({1, 2, 3}, 2), (Series{1, 2, 3}));
  EXPECT_EQ(Stretch({}, 3), Series{});
}

TEST(Plot, OfOneLineIsASparkline) {
  EXPECT_EQ(Plot({0, 1, 2, 3, 4, 5, 6, 7, 8}, 1, Terminal{}), (std::vector<std::string>{" ▁▂▃▄▅▆▇█"}));
}

TEST(Plot, StacksLines) {
  // Of 16 eighths: 4 -> 8, a full lower line; 8 -> 16, both; 6 -> 12, a full lower and half an upper.
  EXPECT_EQ(Plot({4, 8, 6}, 2, Terminal{}), (std::vector<std::string>{" █▄", "███"}));
}

TEST(Plot, ShowsWhatIsSmallButNotNothing) {
  EXPECT_EQ(Plot({0, 1, 1000000}, 1, Terminal{}), (std::vector<std::string>{" ▁█"}));
}

TEST(Plot, OfZerosAndOfNothingIsBlank) {
  EXPECT_EQ(Plot({0, 0}, 1, Terminal{}), (std::vector<std::string>{"  "}));
  EXPECT_EQ(Plot({}, 2, Terminal{}), (std::vector<std::string>{"", ""}));
}

TEST(Plot, KeepsToAsciiWhereTheLocaleAsksForIt) {
  for (const std::string& line : Plot({0, 1, 2, 3, 4, 5, 6, 7, 8}, 2, Terminal{.unicode = false})) {
    EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; })) << line;
  }
}

}  // namespace
}  // namespace ebbtide::report
