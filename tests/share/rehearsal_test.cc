// Rehearsals of steps with plans, with their arithmetic. A step of Tide is 4 ops of 100 ns.
#include "share/rehearsal.h"

#include <gtest/gtest.h>

#include "plan/make_plan.h"
#include "tests/share/hand_jobs.h"

namespace ebbtide::share::testing {
namespace {

constexpr Bytes kState = 10, kHeight = 210;

PlannedStep TideStep() {
  const std::shared_ptr<const Training> tide = Tide("tide", 1);
  plan::Plan plan;
  plan.alignment = 1;
  plan.schedule = PlainSchedule(tide->workload);
  return {.graph = tide->graph, .plan = plan};
}

Result<Rehearsal> Two(Bytes room, bool one_lane, double share) {
  RehearsalOptions options;
  options.pipeline = {.capacity = 2 * kState + room, .alignment = 1};
  options.one_lane = one_lane;
  options.enough = one_lane ? room : room / 2;
  options.cut.groups = 4;
  options.share = share;
  return Rehearse({TideStep(), TideStep()}, options);
}

TEST(Rehearsal, LanesOfTheirOwnRunAsTheDeviceAllows) {
  EXPECT_EQ(Two(2 * kHeight, false, 0.5)->round, 400);
  EXPECT_EQ(Two(2 * kHeight, false, 1)->round, 800);
  EXPECT_EQ(Two(2 * kHeight, false, 0.5)->overlap, 1);
}

TEST(Rehearsal, AFullLaneAlternates) {
  const Rehearsal full = *Two(kHeight, true, 0.5);
  EXPECT_EQ(full.round, 800);
  EXPECT_EQ(full.overlap, 0);
  const Rehearsal wider = *Two(kHeight + 30, true, 0.5);  // forward's 100 beside backward's 120
  EXPECT_LT(wider.round, 800);
  EXPECT_GT(wider.overlap, 0);
}

TEST(Rehearsal, WhatDoesNotFitIsSaid) { EXPECT_FALSE(Two(kHeight - 1, true, 1)); }

}  // namespace
}  // namespace ebbtide::share::testing
