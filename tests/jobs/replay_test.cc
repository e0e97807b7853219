// Replays as jobs, of traces in hand.
#include "jobs/replay.h"

#include <gtest/gtest.h>

#include "tests/jobs/stop_after.h"

namespace ebbtide::jobs {
namespace {

// `count` blocks of 30 MiB that live together.
ReplayRequest Blocks(int count) {
  std::string text = "action,id,bytes,stream\n";
  for (int i = 0; i < count; ++i) text += fmt::format("alloc,{},{},main\n", i, 30 * kMiB);
  ReplayRequest request;
  request.in_hand = *trace::ParseOwnTrace(text, "blocks.csv");
  return request;
}

TEST(Replay, GivesWhatTheAllocatorTook) {
  const auto result = Replay(Blocks(3), {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_FALSE(result->replayed.out_of_memory);
  EXPECT_EQ(result->failed(), nullptr);
  EXPECT_EQ(result->replayed.usage.reserved_peak, 90 * kMiB);
  EXPECT_EQ(result->allocator, "pytorch");
  EXPECT_EQ(result->capacity, kTooLarge);
  EXPECT_FALSE(result->IsExact());  // nothing was recorded
}

TEST(Replay, OutOfMemoryIsAnAnswer) {
  ReplayRequest request = Blocks(3);
  request.capacity = 80 * kMiB;
  const auto result = Replay(request, {});
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->replayed.out_of_memory);
  ASSERT_NE(result->failed(), nullptr);
  EXPECT_EQ(result->failed()->place, 4);  // the third request, behind the header
  EXPECT_EQ(result->StreamName(result->failed()->stream), "main");
}

TEST(Replay, AGpuHasItsMemoryBesideTheContext) {
  ReplayRequest request = Blocks(3);
  request.gpu.emplace();
  request.gpu->name = "tiny";
  request.gpu->memory = 100 * kMiB;
  request.gpu->context = 20 * kMiB;
  const auto result = Replay(request, {});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->capacity, 80 * kMiB);
  EXPECT_EQ(result->gpu, "tiny");
  EXPECT_TRUE(result->replayed.out_of_memory);
  request.capacity = 1;
  EXPECT_EQ(Replay(request, {}).error().message, "--capacity: expected only one of --gpu and --capacity");
}

TEST(Replay, SaysWhatIsWrong) {
  EXPECT_EQ(Replay({}, {}).error().message, "expected a TRACE");
  ReplayRequest request = Blocks(1);
  request.allocator = "pytorhc";
  EXPECT_FALSE(Replay(request, {}));
}

TEST(Replay, StopsAmidTheTrace) {
  constexpr int kEvents = 5000;
  StopAfter never(StopAfter::kNever);
  ASSERT_TRUE(Replay(Blocks(kEvents), never.context));
  ASSERT_GT(never.asked, 8);
  for (int part = 0; part < 4; ++part) {
    StopAfter stop(never.asked * part / 4);
    const auto result = Replay(Blocks(kEvents), stop.context);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::kStopped);
    EXPECT_EQ(stop.asked, stop.least + 1);
  }
}

}  // namespace
}  // namespace ebbtide::jobs
