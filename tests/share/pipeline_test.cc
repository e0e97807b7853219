// The pipeline's rules, one by one, with their arithmetic. Addresses are aligned to a byte.
#include "share/scheduler/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/share/device_model.h"

namespace ebbtide::share {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

JobShape Wave(std::string name, Bytes state, int lane = kAnyLane) {
  return {
      .name = std::move(name), .persistent = state, .groups = {{50, 50}, {100, 80}, {80, 40}, {40, 0}}, .lane = lane};
}
PipelineOptions Options(Bytes capacity, bool at_ebb = false) {
  return {.capacity = capacity, .alignment = 1, .ahead = 1, .start_at_ebb = at_ebb};
}
void RunGroup(Pipeline& pipeline, JobId job, int group) {
  ASSERT_TRUE(pipeline.TryStart(job, group)) << group;
  pipeline.Finished(job, group);
}
void RunIteration(Pipeline& pipeline, JobId job) {
  for (int group = 0; group < 4; ++group) RunGroup(pipeline, job, group);
}

TEST(Pipeline, LanesBelowStateAbove) {
  Pipeline pipeline(Options(260));
  const JobId a = *pipeline.Join(Wave("a", 20)), b = *pipeline.Join(Wave("b", 30));
  // 20 + 30 of state and two peaks of 100 take 250 of 260: a lane for each.
  EXPECT_EQ(pipeline.StateAddress(a), 240);
  EXPECT_EQ(pipeline.StateAddress(b), 210);
  EXPECT_EQ(pipeline.LaneOf(a), LaneId(0));
  EXPECT_EQ(pipeline.LaneOf(b), LaneId(1));
  const auto first = pipeline.TryStart(a, 0), second = pipeline.TryStart(b, 0);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->span.Address(0, 50), 0);
  EXPECT_EQ(second->span.Address(0, 50), 100);
  const auto third = pipeline.Join(Wave("c", 20));
  ASSERT_FALSE(third);
  EXPECT_THAT(third.error().message, HasSubstr("c: needs 20 B for its state and up to 100 B"));
}

TEST(Pipeline, TheSecondGrowsFromTheTopAsTheFirstEbbs) {
  Pipeline pipeline(Options(130));
  const JobId a = *pipeline.Join(Wave("a", 10)), b = *pipeline.Join(Wave("b", 10));
  EXPECT_EQ(pipeline.LaneOf(a), pipeline.LaneOf(b));
  // The lane has 110. a: 50, 100, 80, 40. While a may still reach 100, b may leave no more than 10.
  RunGroup(pipeline, a, 0);
  EXPECT_EQ(pipeline.WhyNot(b, 0), Refusal::kMemory);
  RunGroup(pipeline, a, 1);
  EXPECT_EQ(pipeline.WhyNot(b, 0), Refusal::kMemory);  // a holds 80, and 80 + 50 > 110
  RunGroup(pipeline, a, 2);
  const auto grant = pipeline.TryStart(b, 0);  // a holds 40 and reaches 40: 40 + 50 <= 110
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->span.end, LaneEnd::kTop);
  EXPECT_EQ(grant->span.Address(0, 50), 60);
  EXPECT_EQ(grant->span.Address(50, 10), 50);
  pipeline.Finished(b, 0);
  EXPECT_EQ(pipeline.WhyNot(b, 1), Refusal::kMemory);  // 40 + 100 > 110
  RunGroup(pipeline, a, 3);
  RunGroup(pipeline, b, 1);
  EXPECT_EQ(pipeline.Iterations(a), 1);
}

TEST(Pipeline, StartsAtTheEbbWhereThePeaksDoNotFit) {
  // A lane of 160: beside a's 100, b's 50 are safe; but that would be forward beside forward.
  Pipeline at_once(Options(160)), at_ebb(Options(160, true));
  for (Pipeline* pipeline : {&at_once, &at_ebb}) {
    const JobId a = *pipeline->Join(Wave("a", 0)), b = *pipeline->Join(Wave("b", 0));
    RunGroup(*pipeline, a, 0);
    EXPECT_EQ(pipeline->WhyNot(b, 0), pipeline == &at_ebb ? Refusal::kEbb : Refusal::kNone);
    ASSERT_TRUE(pipeline->TryStart(a, 1));  // its peak: what follows is less
    EXPECT_EQ(pipeline->WhyNot(b, 0), Refusal::kNone);
  }
}

TEST(Pipeline, WaitsForWhatWasQueuedAndNoMore) {
  Pipeline pipeline(Options(110));
  const JobId a = *pipeline.Join(Wave("a", 0)), b = *pipeline.Join(Wave("b", 0));
  for (int group = 0; group < 3; ++group) {
    ASSERT_TRUE(pipeline.TryStart(a, group));
    pipeline.Queued(a, group);
  }
  // b's 50 beside group 1 (100) or 2 (80) would not fit 110: its stream waits for group 2, the last of them.
  auto grant = pipeline.TryStart(b, 0);
  ASSERT_TRUE(grant);
  EXPECT_THAT(grant->wait_for, ElementsAre(Awaited{a, 0, 2}));
  pipeline.Queued(b, 0);
  ASSERT_TRUE(pipeline.TryStart(a, 3));
  pipeline.Queued(a, 3);  // a's iteration is queued whole: the lane is b's
  grant = pipeline.TryStart(b, 1);
  ASSERT_TRUE(grant);
  EXPECT_THAT(grant->wait_for, ElementsAre(Awaited{a, 0, 3}));  // 100 beside 40
  for (int group = 0; group < 4; ++group) pipeline.Finished(a, group);
  pipeline.Finished(b, 0);
  pipeline.Finished(b, 1);
  grant = pipeline.TryStart(b, 2);
  ASSERT_TRUE(grant);
  EXPECT_THAT(grant->wait_for, IsEmpty());
}

TEST(Pipeline, IterationsByWeight) {
  Pipeline pipeline(Options(110));
  JobShape heavy = Wave("a", 0);
  heavy.weight = 3;
  const JobId a = *pipeline.Join(heavy), b = *pipeline.Join(Wave("b", 0));
  for (int iteration = 0; iteration < 400; ++iteration) {
    // Both always want to run; one at a time here.
    const bool first = pipeline.TryStart(a, 0).has_value();
    const JobId job = first ? a : b;
    ASSERT_EQ(pipeline.TryStart(b, 0).has_value(), !first);
    pipeline.Finished(job, 0);
    for (int group = 1; group < 4; ++group) RunGroup(pipeline, job, group);
  }
  EXPECT_NEAR(static_cast<double>(pipeline.Iterations(a)), 300, 3);
}

TEST(Pipeline, AJobAloneInItsLaneDoesNotRunAway) {
  Pipeline pipeline(Options(200));
  const JobId a = *pipeline.Join(Wave("a", 0)), b = *pipeline.Join(Wave("b", 0));
  ASSERT_TRUE(pipeline.TryStart(b, 0));  // and stays there
  for (int iteration = 0; iteration < 3; ++iteration) RunIteration(pipeline, a);
  EXPECT_EQ(pipeline.WhyNot(a, 0), Refusal::kAhead);
  pipeline.Abort(b);
  EXPECT_EQ(pipeline.WhyNot(a, 0), Refusal::kNone);  // nobody waits
}

TEST(Pipeline, AHigherPriorityGoesFirst) {
  Pipeline pipeline(Options(110));
  JobShape urgent = Wave("b", 0);
  urgent.priority = 1;
  const JobId a = *pipeline.Join(Wave("a", 0)), b = *pipeline.Join(urgent), c = *pipeline.Join(Wave("c", 0));
  RunGroup(pipeline, c, 0);
  EXPECT_FALSE(pipeline.TryStart(a, 0));
  EXPECT_FALSE(pipeline.TryStart(b, 0));
  for (int group = 1; group < 4; ++group) RunGroup(pipeline, c, group);
  EXPECT_EQ(pipeline.WhyNot(a, 0), Refusal::kTurn);
  EXPECT_EQ(pipeline.WhyNot(b, 0), Refusal::kNone);
  pipeline.Withdraw(b);
  EXPECT_EQ(pipeline.WhyNot(a, 0), Refusal::kNone);
}

TEST(Pipeline, AnOlderIterationIsNotPutOffForever) {
  // The lane has 71. a holds 10 and wants 54; b takes 24 at its peak and leaves little: it would fit beside what a
  // holds again and again, and each time keep a from going on.
  Pipeline pipeline(Options(71));
  const JobId a = *pipeline.Join({.name = "a", .groups = {{10, 10}, {54, 0}}, .lane = 0});
  const JobId b = *pipeline.Join({.name = "b", .groups = {{24, 5}, {24, 0}}, .lane = 0});
  RunGroup(pipeline, a, 0);
  ASSERT_TRUE(pipeline.TryStart(b, 0));
  EXPECT_FALSE(pipeline.TryStart(a, 1));
  pipeline.Finished(b, 0);
  EXPECT_EQ(pipeline.WhyNot(b, 1), Refusal::kMemory);  // 24 + 54 > 71, and a could go on now
  RunGroup(pipeline, a, 1);
  RunGroup(pipeline, b, 1);
}

TEST(Pipeline, AJobThatIsAboutToAskKeepsItsTurn) {
  PipelineOptions options = Options(200);
  options.ahead = 0;
  Pipeline pipeline(options);
  const JobId a = *pipeline.Join(Wave("a", 0)), b = *pipeline.Join(Wave("b", 0));
  RunIteration(pipeline, b);
  RunIteration(pipeline, a);
  RunIteration(pipeline, b);
  // b is one ahead of a, which has not asked again yet.
  EXPECT_EQ(pipeline.WhyNot(b, 0), Refusal::kAhead);
  pipeline.Withdraw(a);
  EXPECT_EQ(pipeline.WhyNot(b, 0), Refusal::kNone);
}

TEST(Pipeline, AJobJoinsWhileTheTopIsInUse) {
  Pipeline pipeline(Options(200));
  const JobId a = *pipeline.Join(Wave("a", 10, 0)), b = *pipeline.Join(Wave("b", 10, 0));
  ASSERT_EQ(pipeline.regions().lanes()[0].size, 180);
  RunGroup(pipeline, a, 0);
  RunGroup(pipeline, b, 0);  // from 180 down
  const Result<JobId> c = pipeline.Join(Wave("c", 40, 0));
  ASSERT_TRUE(c);
  EXPECT_EQ(pipeline.StateAddress(*c), 140);  // where b still is
  EXPECT_FALSE(pipeline.IsReady(*c));
  EXPECT_EQ(pipeline.WhyNot(*c, 0), Refusal::kNotReady);
  for (int group = 1; group < 4; ++group) RunGroup(pipeline, b, group);
  EXPECT_TRUE(pipeline.IsReady(*c));
  EXPECT_EQ(pipeline.regions().lanes()[0].size, 140);
  pipeline.Leave(*c);
  EXPECT_EQ(pipeline.regions().lanes()[0].size, 180);
}

TEST(Pipeline, ShapesAreChecked) {
  Pipeline pipeline(Options(1000));
  EXPECT_FALSE(pipeline.Join({.name = "none", .groups = {}}));
  EXPECT_FALSE(pipeline.Join({.name = "ends high", .groups = {{10, 5}}}));
  EXPECT_FALSE(pipeline.Join({.name = "below", .groups = {{10, 8}, {7, 0}}}));
  EXPECT_FALSE(pipeline.Join({.name = "weight", .groups = {{10, 0}}, .weight = 0}));
  EXPECT_TRUE(pipeline.Join({.name = "good", .groups = {{10, 8}, {8, 0}}}));
}

}  // namespace
}  // namespace ebbtide::share
