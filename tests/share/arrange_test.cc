// Lanes, plans and turns that the arranger chooses, with their arithmetic. A step of Tide is 4 ops of 100 ns; it has 10
// bytes of state, its iteration is 210 bytes tall, and no plan makes it lower than 200.
#include "share/scheduler/arrange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "share/scheduler/lane_choices.h"
#include "share/scheduler/shared_step.h"
#include "tests/share/hand_jobs.h"

namespace ebbtide::share::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Bytes kState = 10, kHeight = 210;

MixOptions Room(Bytes room, int jobs, bool may_plan = false) {
  MixOptions options;
  options.capacity = jobs * kState + room;
  options.alignment = 1;
  options.cut.groups = 4;
  options.link = {.to_device = 1e9, .to_host = 1e9};  // a byte in a nanosecond
  options.may_plan = may_plan;
  return options;
}

Mix Arranged(const MixOptions& options, double share, int jobs = 2) {
  const std::vector<std::shared_ptr<const Training>> trainings(static_cast<std::size_t>(jobs), Tide("tide", share));
  return *ArrangeMix(trainings, options);
}

TEST(Arrange, LanesOfTheirOwnRunAsTheDeviceAllows) {
  const Mix mix = Arranged(Room(2 * kHeight, 2), 0.5);
  ASSERT_TRUE(mix.fits);
  EXPECT_THAT(mix.lanes, ElementsAre(0, 1));
  EXPECT_EQ(mix.together.round, 400);
  EXPECT_EQ(mix.together.overlap(), 1);
  EXPECT_EQ(mix.peak, 2 * (kState + kHeight));
  EXPECT_EQ(Arranged(Room(2 * kHeight, 2), 1).together.round, 800);
}

TEST(Arrange, AFullLaneAlternates) {
  const Mix full = Arranged(Room(kHeight, 2), 0.5);
  ASSERT_TRUE(full.fits);
  EXPECT_THAT(full.lanes, ElementsAre(0, 0));
  EXPECT_EQ(full.together.round, 800);
  EXPECT_EQ(full.together.overlap(), 0);
  const Mix wider = Arranged(Room(kHeight + 30, 2), 0.5);  // forward's 100 beside backward's 120
  EXPECT_LT(wider.together.round, 800);
  EXPECT_GT(wider.together.overlap(), 0);
}

TEST(Arrange, TwoOfThreeShareALaneWhereThreeDoNotFit) {
  const Mix mix = Arranged(Room(2 * kHeight, 3), 0.3, 3);
  ASSERT_TRUE(mix.fits);
  EXPECT_EQ(LanesOf(mix.lanes), 2);
  // Who has a lane to itself joins first.
  const int first = mix.lanes[mix.join_order[0]];
  EXPECT_EQ(std::ranges::count(mix.lanes, first), 1);
}

TEST(Arrange, WhatDoesNotFitIsSaid) {
  const Mix mix = Arranged(Room(kHeight - 1, 2), 1);
  EXPECT_FALSE(mix.fits);
  EXPECT_EQ(mix.needed, 2 * kState + kHeight);
  EXPECT_THAT(mix.reason, HasSubstr("the jobs' state takes 20 B and the tallest iteration 210 B; there are 229 B"));
}

TEST(Arrange, AJobThatIsTooTallRunsUnderAPlan) {
  const Mix mix = Arranged(Room(kHeight - 5, 2, true), 1);
  ASSERT_TRUE(mix.fits);
  for (const Job& job : mix.jobs) {
    EXPECT_TRUE(job.planned());
    EXPECT_LE(job.placement.height, kHeight - 5);
  }
  // Below 200 there is no plan, and a policy that makes none leaves the step as it is.
  EXPECT_FALSE(Arranged(Room(199, 2, true), 1).fits);
  auto unplanned = std::make_shared<Training>(*Tide("tide", 1));
  unplanned->policy = "none";
  EXPECT_FALSE(ArrangeMix({unplanned, unplanned}, Room(kHeight - 5, 2, true))->fits);
}

TEST(Arrange, PlansAreMadeOnce) {
  MixOptions options = Room(kHeight - 5, 2, true);
  int plans = 0;
  options.progress = [&](const std::string&) { ++plans; };
  Arranger arranger(options);
  const std::shared_ptr<const Training> tide = Tide("tide", 1);
  const Mix first = *arranger.Arrange({tide, tide});
  const int made = plans;
  EXPECT_GT(made, 0);
  const Mix again = *arranger.Arrange({tide, tide});
  EXPECT_EQ(plans, made);
  EXPECT_EQ(again.together.round, first.together.round);
  EXPECT_EQ(again.jobs[0].plan, first.jobs[0].plan);
  ASSERT_TRUE(arranger.Within(tide, kHeight - 5));
  EXPECT_EQ(plans, made);
}

TEST(Arrange, StopsWhenAsked) {
  MixOptions options = Room(kHeight, 2, true);
  options.stop = [] { return true; };
  const auto mix = ArrangeMix({Tide("tide", 1), Tide("tide", 1)}, options);
  ASSERT_FALSE(mix);
  EXPECT_EQ(mix.error().kind, ErrorKind::kStopped);
}

// The engine places a plan as the arranger did.
TEST(Arrange, AStepRunsAsItWasArranged) {
  const Mix mix = Arranged(Room(kHeight - 5, 2, true), 0.5);
  ASSERT_TRUE(mix.fits);
  for (std::size_t i = 0; i < mix.jobs.size(); ++i) {
    const Job& job = mix.jobs[i];
    const auto step =
        MakeSharedStep(job.training->graph, *job.plan, {.height_limit = job.height_limit, .cut = {.groups = 4}});
    ASSERT_TRUE(step) << step.error().message;
    EXPECT_EQ(step->state, job.placement.state);
    EXPECT_EQ(step->height, job.placement.height);
    const JobShape arranged = ShapeOf(job, 0);
    ASSERT_EQ(step->shape.groups.size(), arranged.groups.size());
    for (std::size_t g = 0; g < arranged.groups.size(); ++g) {
      EXPECT_EQ(step->shape.groups[g].peak, arranged.groups[g].peak);
      EXPECT_EQ(step->shape.groups[g].after, arranged.groups[g].after);
    }
  }
}

TEST(LaneChoices, AllWaysForAFewJobs) {
  EXPECT_EQ(LaneChoices(3).size(), 5u);
  EXPECT_EQ(LaneChoices(5).size(), 52u);
  EXPECT_THAT(LaneChoices(2), ElementsAre(ElementsAre(0, 1), ElementsAre(0, 0)));
  EXPECT_EQ(LaneChoices(9).size(), 3u);
  EXPECT_TRUE(IsFinerThan({0, 1, 2}, {0, 0, 1}));
  EXPECT_TRUE(IsFinerThan({0, 0, 1}, {0, 0, 0}));
  EXPECT_FALSE(IsFinerThan({0, 0, 1}, {0, 1, 1}));
}

}  // namespace
}  // namespace ebbtide::share::testing
