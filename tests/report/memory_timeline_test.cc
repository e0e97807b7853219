// Memory over time: samples keep the peak, files that are not timelines are refused, the page holds what it should.
#include "report/memory_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "report/page/memory_page.h"

namespace ebbtide::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// 100 B for good; 40 B in [2, 4); 200 B in [5, 6).
MemoryTimeline Example() {
  MemoryTimeline timeline;
  timeline.title = "a </script><b> & @data@";
  timeline.events = 10;
  timeline.allocations = {{.begin = 0, .end = 10, .bytes = 100, .category = MemoryCategory::kParameter, .name = 0},
                          {.begin = 2, .end = 4, .bytes = 40, .category = MemoryCategory::kTemp},
                          {.begin = 5, .end = 6, .bytes = 200, .category = MemoryCategory::kActivation, .stack = 0}};
  timeline.reserved = {{0, 100}, {5, 512}};
  timeline.texts = {"weight", "train.py:3"};
  timeline.stacks = {{1}};
  return timeline;
}

std::string WriteTemporary(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/timeline_test.json";
  std::ofstream(path) << text;
  return path;
}

TEST(MemoryTimeline, SamplesKeepThePeakHoweverFew) {
  for (const std::size_t count : {1, 2, 3, 100}) {
    Bytes most = 0;
    for (const TimelineSample& sample : SampleTimeline(Example(), count)) most = std::max(most, sample.allocated());
    EXPECT_EQ(most, 300) << count;
  }
  EXPECT_EQ(PeakEvent(Example()), 5);
  EXPECT_EQ(PeakEvent(MemoryTimeline{}), -1);
}

TEST(MemoryTimeline, ASampleHasEveryCategoryAndWhatIsReserved) {
  const TimelineSample peak = SampleTimeline(Example(), 1)[0];
  EXPECT_EQ(peak.at, 5);
  EXPECT_EQ(peak.by_category[static_cast<std::size_t>(MemoryCategory::kParameter)], 100);
  EXPECT_EQ(peak.by_category[static_cast<std::size_t>(MemoryCategory::kActivation)], 200);
  EXPECT_EQ(peak.by_category[static_cast<std::size_t>(MemoryCategory::kTemp)], 0);
  EXPECT_EQ(peak.reserved, 512);
}

TEST(MemoryTimeline, ARangeIsSampledEventByEvent) {
  const auto samples = SampleTimeline(Example(), 1, {.begin = 2, .end = 7});
  std::vector<std::int64_t> events;
  for (const TimelineSample& sample : samples) events.push_back(sample.at);
  EXPECT_EQ(events, (std::vector<std::int64_t>{0, 2, 4, 5, 6}));  // where something begins or ends
}

TEST(MemoryTimeline, IsReadFromItsFile) {
  const Result<MemoryTimeline> timeline = ReadTimeline(WriteTemporary(
      R"({"format": "ebbtide.timeline", "version": 1, "events": 4, "allocations": [[1, 4, 512, 5, 0, 7], [0, 2, 1024, 0, -1, -1]],
          "reserved": [[0, 2048]], "marks": [[2, "step 1"]], "texts": ["x"], "stacks": [[0, 9]]})"));
  ASSERT_TRUE(timeline) << timeline.error().message;
  ASSERT_EQ(timeline->allocations.size(), 2u);
  EXPECT_EQ(timeline->allocations[0].bytes, 1024);  // in the order of their begins
  EXPECT_EQ(timeline->allocations[1].category, MemoryCategory::kActivation);
  EXPECT_EQ(timeline->allocations[1].stack, -1);  // there is no stack 7
  EXPECT_EQ(timeline->stacks[0], std::vector<int>{0});
  EXPECT_EQ(timeline->marks[0].label, "step 1");
}

TEST(MemoryTimeline, AWrongFileIsRefusedWithItsPlace) {
  for (const char* text :
       {"", "[]", R"({"format": "other"})", R"({"version": 2})", R"({"allocations": [[1, 0, 5, 0, 0, 0]]})",
        R"({"allocations": [[0, 1, -5, 0, 0, 0]]})", R"({"allocations": [[0, 1, 5, 7, 0, 0]]})",
        R"({"allocations": [[0, 1]]})", R"({"reserved": [[0, 1, 2]]})", R"({"size": 1})"}) {
    const std::string path = WriteTemporary(text);
    const Result<MemoryTimeline> timeline = ReadTimeline(path);
    ASSERT_FALSE(timeline) << text;
    EXPECT_THAT(timeline.error().message, HasSubstr(path));
  }
}

TEST(MemoryPage, HoldsTheDataAndLetsNoTextOutOfIt) {
  const std::string page = MemoryPage(Example());
  EXPECT_THAT(page, HasSubstr("<title>a &lt;/script&gt;&lt;b&gt; &amp; @data@"));
  EXPECT_THAT(page, HasSubstr(R"("title":"a \u003c/script>\u003cb> & @data@")"));
  EXPECT_THAT(page, HasSubstr("[5,6,200,5,-1,0]"));
  EXPECT_THAT(page, HasSubstr("train.py:3"));
  EXPECT_THAT(page, Not(HasSubstr("@css@")));
  EXPECT_THAT(page, Not(HasSubstr("@js@")));
}

// Many small ones: the page lists the largest and adds the rest up.
TEST(MemoryPage, StaysSmallWhateverTheRun) {
  MemoryTimeline timeline;
  timeline.events = 400'000;
  for (std::int64_t i = 0; i < 200'000; ++i) {
    timeline.allocations.push_back({.begin = 2 * i, .end = 2 * i + 1, .bytes = 512 * (1 + i % 100)});
  }
  EXPECT_LT(MemoryPage(timeline).size(), 1'500'000u);
  EXPECT_THAT(MemoryPage(MemoryTimeline{}), HasSubstr("\"events\":0"));
}

}  // namespace
}  // namespace ebbtide::report
