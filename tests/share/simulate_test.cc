// The simulator's rules, with their arithmetic. A step of TideJob is 4 ops of 100 ns.
#include "share/simulator/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "share/baselines/baseline.h"
#include "share/simulator/pipeline_scheduler.h"
#include "tests/share/hand_jobs.h"

namespace ebbtide::share::testing {
namespace {

Nanos RoundOf(const std::vector<Job>& jobs) {
  OpenScheduler scheduler;
  const Together together = RunTogether(jobs, scheduler, {});
  EXPECT_FALSE(together.stuck);
  return together.round;
}

TEST(Together, AloneItTakesItsTime) { EXPECT_EQ(RoundOf({TideJob("a", 1)}), 400); }

TEST(Together, SharesAddUpToAtMostOne) {
  EXPECT_EQ(RoundOf({TideJob("a", 0.5), TideJob("b", 0.5)}), 400);
  EXPECT_EQ(RoundOf({TideJob("a", 1), TideJob("b", 1)}), 800);
  // 0.75 + 0.75: both slow down to two thirds.
  EXPECT_EQ(RoundOf({TideJob("a", 0.75), TideJob("b", 0.75)}), 600);
}

TEST(Together, OneRunsWhileTheOtherIsLaunched) {
  // Half of each op is launch: two jobs take turns on the GPU, and neither waits.
  const Nanos round = RoundOf({TideJob("a", 1, 50), TideJob("b", 1, 50)});
  EXPECT_GE(round, 400);
  EXPECT_LE(round, 600);
}

TEST(Together, OpsOfMonthsEnd) {
  // The clock then no longer shows single nanoseconds. 0.7 + 0.6: both slow down to 1 / 1.3, together 1.3 of one alone.
  constexpr Nanos kTwelveDays = 1'000'000'000'000'003;
  const std::vector<Job> jobs = {TideJob("a", 0.7, 0, kTwelveDays), TideJob("b", 0.6, 0, 7 * kTwelveDays / 3)};
  OpenScheduler scheduler;
  TogetherOptions options;
  options.most_events = 100'000;
  const Together together = RunTogether(jobs, scheduler, options);
  ASSERT_FALSE(together.stuck);
  EXPECT_GE(together.round, 28 * (kTwelveDays / 3));  // b alone
  EXPECT_LE(together.round,
            28 * (kTwelveDays / 3) * 13 / 10 + 1000);  // b beside a all the time, to the rounding of the clock
}

PipelineScheduler SchedulerFor(const std::vector<Job>& jobs, Bytes capacity) {
  auto scheduler = PipelineScheduler::Make(jobs, std::vector<int>(jobs.size(), 0),
                                           {.pipeline = {.capacity = capacity, .alignment = 1}});
  EXPECT_TRUE(scheduler);
  return *std::move(scheduler);
}

TEST(Together, ThePipelineLetsForwardMeetBackward) {
  const std::vector<Job> jobs = {TideJob("a", 1), TideJob("b", 1)};
  ASSERT_EQ(jobs[0].placement.height, 210);
  // State of 2 x 10 leaves 240 for the lane: forward's 100 beside backward's 120.
  PipelineScheduler scheduler = SchedulerFor(jobs, 2 * jobs[0].placement.state + 240);
  TogetherOptions options;
  options.keep_timeline = true;
  const Together together = RunTogether(jobs, scheduler, options);
  EXPECT_FALSE(together.stuck);
  EXPECT_EQ(together.round, 800);  // each op fills the GPU: nothing is won, nothing is lost
  EXPECT_GT(together.overlapped, 0);
  EXPECT_LT(together.overlapped, together.group_runs);
  // Heights of both never exceed the lane.
  Bytes height[2] = {0, 0};
  for (const MemoryPoint& point : together.memory) {
    height[point.job] = point.height;
    EXPECT_LE(height[0] + height[1], 240);
  }
}

TEST(Baselines, WithRoomForAll) {
  BaselineInput input{.jobs = {TideJob("a", 0.5), TideJob("b", 0.5)}, .options = {}};
  input.options.capacity = 10 * kGiB;
  for (const Baseline& baseline : Baselines()) {
    if (baseline.name == "mps") continue;  // needs a graph of PyTorch's
    const BaselineResult result = baseline.run(input);
    EXPECT_TRUE(result.fits) << baseline.name;
    const bool in_turn = baseline.name == "exclusive" || baseline.name == "time-slicing";
    const bool at_peak = baseline.name == "wavelet";  // b begins when a has passed its peak
    if (in_turn) {
      EXPECT_EQ(result.together.round, 800) << baseline.name;
    } else if (at_peak) {
      EXPECT_GE(result.together.round, 400) << baseline.name;
      EXPECT_LT(result.together.round, 800) << baseline.name;
    } else {
      EXPECT_EQ(result.together.round, 400) << baseline.name;
    }
  }
}

TEST(Baselines, TimeSlicingMovesStateThatDoesNotFit) {
  BaselineInput input{.jobs = {TideJob("a", 1), TideJob("b", 1)}, .options = {}};
  const Placement& placement = input.jobs[0].placement;
  // Room for one iteration with its own state, not for the other's too. The link moves a byte in a nanosecond: 10 bytes
  // take 11 ns each way, at once.
  input.options.capacity = placement.state + placement.live_peak;
  input.options.link = {.to_device = 1e9, .to_host = 1e9};
  const BaselineResult result = FindBaseline("time-slicing")->run(input);
  ASSERT_TRUE(result.fits);
  EXPECT_EQ(result.together.round, 2 * (400 + placement.state + 1));
  input.options.capacity = placement.state + placement.live_peak - 1;
  EXPECT_FALSE(FindBaseline("time-slicing")->run(input).fits);
  EXPECT_FALSE(FindBaseline("exclusive")->run(input).fits);
}

TEST(Baselines, WavesThatAreTooTall) {
  BaselineInput input{.jobs = {TideJob("a", 1), TideJob("b", 1)}, .options = {}};
  input.options.capacity = 2 * input.jobs[0].placement.state + 250;
  EXPECT_TRUE(FindBaseline("zico")->run(input).fits);
  EXPECT_TRUE(FindBaseline("wavelet")->run(input).fits);
  input.options.capacity = 2 * input.jobs[0].placement.state + 200;
  EXPECT_FALSE(FindBaseline("zico")->run(input).fits);
  EXPECT_FALSE(FindBaseline("wavelet")->run(input).fits);
}

}  // namespace
}  // namespace ebbtide::share::testing
