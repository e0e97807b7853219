// Packing as a job, with items in hand.
#include "jobs/pack.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/jobs/stop_after.h"

namespace ebbtide::jobs {
namespace {

// Enough of them, and sizes odd enough, that first fit does not reach the live peak.
PackRequest Hard() {
  PackRequest request;
  request.path = "hard";
  pack::PackInstance& instance = request.instance.emplace();
  std::mt19937_64 random(5);
  for (int i = 0; i < 150; ++i) {
    const auto from = static_cast<std::int64_t>(random() % 60);
    const auto to = from + 1 + static_cast<std::int64_t>(random() % 30);
    instance.ids.push_back(std::to_string(i));
    instance.items.push_back({from, to, 1 + static_cast<Bytes>(random() % 1000)});
  }
  request.evaluations = 200'000;
  return request;
}

TEST(Pack, TwoThatMeetAndOneThatComesLater) {
  PackRequest request;
  request.instance = pack::PackInstance{.ids = {"a", "b", "c"}, .items = {{0, 2, 10}, {1, 3, 20}, {3, 4, 25}}};
  const auto result = Pack(request, {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->packing.height, 30);
  EXPECT_EQ(result->capacity, 30);  // the live peak, since none was given
  EXPECT_TRUE(result->fits());
  request.capacity = 29;
  const auto tight = Pack(request, {});
  ASSERT_TRUE(tight);
  EXPECT_FALSE(tight->fits());
}

TEST(Pack, SaysWhatIsWrong) {
  EXPECT_EQ(Pack({}, {}).error().message, "expected an INSTANCE.csv");
  PackRequest request = Hard();
  request.time_limit = -2;
  EXPECT_EQ(Pack(request, {}).error().message, "--time-limit: expected seconds from 0 on, found -2");
  request = Hard();
  request.instance->items[3].to = request.instance->items[3].from;
  const auto empty = Pack(request, {});
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().message.rfind("hard: ", 0), 0u);
}

TEST(Pack, StopsWhereverItIs) {
  StopAfter never(StopAfter::kNever);
  const auto whole = Pack(Hard(), never.context);
  ASSERT_TRUE(whole);
  ASSERT_GT(never.asked, 50) << "too easy: it shows nothing";
  for (int part = 0; part < 8; ++part) {
    StopAfter stop(never.asked * part / 8);
    const auto result = Pack(Hard(), stop.context);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::kStopped);
    EXPECT_EQ(stop.asked, stop.least + 1);
  }
}

TEST(Pack, TimeTakesTheBestSoFar) {
  PackRequest request = Hard();
  request.evaluations = 1'000'000'000'000;
  request.time_limit = 1e-9;
  const auto result = Pack(request, {});
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->packing.stopped_early);
  EXPECT_TRUE(pack::ValidatePacking(result->instance.items, result->packing.offsets, result->packing.height));
}

}  // namespace
}  // namespace ebbtide::jobs
