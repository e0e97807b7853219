// What planners must not do, on steps made by hand: each was once done.
#include "plan/search/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/policies/policy.h"
#include "plan/search/rollout.h"
#include "plan/validate.h"
#include "sim/simulate.h"
#include "tests/support/hand_graph.h"
#include "tests/support/id_literals.h"

namespace ebbtide::plan {
namespace {

using testing::ElementsAre;

constexpr Link kLink{.to_device = 1e9, .to_host = 1e9, .latency = 0};

SearchOptions Short() {
  SearchOptions search;
  search.evaluations = 40;
  return search;
}

sim::Schedule RunWithout(const sim::Workload& workload, bool swap, Bytes budget, const Preferences& preferences) {
  const Problem problem = MakeProblem(workload, kLink, {.budget = budget, .may_swap = swap});
  Rollout rollout(problem, preferences, /*record=*/true);
  EXPECT_TRUE(rollout.Run());
  return rollout.TakeSchedule();
}

TEST(Driver, AChangeThatIsStillToComeIsNotRunEarly) {
  // a (100) is made, has to leave for x (100), is read, and only then changed in place.
  HandGraph step;
  const TensorId a = step.Make("a", {}, 100, {.time = 1});                  // 0
  step.Make("x", {}, 100, {.time = 1});                                     // 1
  step.Make("read", {a}, 1, {.time = 1});                                   // 2
  const TensorId changed = step.Change("relu_", {a}, {.time = 1});          // 3
  step.Make("read", {changed}, 1, {.phase = Phase::kBackward, .time = 1});  // 4
  const sim::Workload workload = step.Workload();
  const sim::Schedule schedule = RunWithout(workload, /*swap=*/false, 101, Neutral(workload));
  EXPECT_THAT(schedule.steps, ElementsAre(0_op, 1_op, 0_op, 2_op, 3_op, 4_op));
  EXPECT_TRUE(Validate(step.graph, schedule, {.budget = 101, .alignment = 1, .needs_addresses = false}));
}

TEST(Driver, WhatOneOpMakesIsMadeAgainOnce) {
  // a and b come of one op, leave for x, and are read together.
  HandGraph step;
  const auto made = step.Run("native_batch_norm", {}, {50, 50}, {.time = 1});        // 0
  step.Make("x", {}, 100, {.time = 1});                                              // 1
  step.Make("read", {made[0], made[1]}, 1, {.phase = Phase::kBackward, .time = 1});  // 2
  const sim::Workload workload = step.Workload();
  const sim::Schedule schedule = RunWithout(workload, /*swap=*/false, 101, Neutral(workload));
  EXPECT_THAT(schedule.steps, ElementsAre(0_op, 1_op, 0_op, 2_op));
}

TEST(Driver, WhatOutlivesTheStepIsThereAtItsEnd) {
  // y outlives the step. z, made of y, is made again for the last op; y is idle then but has to stay.
  HandGraph step;
  const TensorId y = step.Make("y", {}, 40, {.time = 1});
  const TensorId z = step.Make("z", {y}, 60, {.time = 1});
  step.Make("x", {}, 80, {.time = 1});
  step.Make("read", {z}, 70, {.phase = Phase::kBackward, .time = 1});
  const TensorId last = step.Make("w", {}, 100, {.phase = Phase::kBackward, .time = 1});
  step.graph.outputs = {y, last};
  const sim::Workload workload = step.Workload();
  for (Bytes budget = 120; budget <= 180; budget += 10) {
    const Problem problem = MakeProblem(workload, kLink, {.budget = budget});
    for (const Policy& policy : Policies()) {
      const PolicyResult result = policy.run({.graph = step.graph, .problem = problem, .search = Short()});
      if (!result.schedule) continue;
      const Status valid =
          Validate(step.graph, *result.schedule, {.budget = budget, .alignment = 1, .needs_addresses = false});
      EXPECT_TRUE(valid) << policy.name << " in " << budget << ": " << valid.error().message;
    }
  }
}

// Two storages that nothing can make again, in the way of a third.
HandGraph TwoToSwap() {
  HandGraph step;
  const TensorId a = step.Make("a", {}, 40, {.time = 100, .deterministic = false});
  const TensorId b = step.Make("b", {}, 60, {.time = 100, .deterministic = false});
  step.Make("x", {}, 100, {.time = 100});
  step.Make("read", {a, b}, 1, {.phase = Phase::kBackward, .time = 100});
  return step;
}

TEST(Driver, TheHostTakesNoMoreThanItMay) {
  const HandGraph step = TwoToSwap();
  const sim::Workload workload = step.Workload();
  const Preferences neutral = Neutral(workload);
  // a and b take 100 bytes of 130: with x, 70 have to leave, that is both.
  for (const auto& [host, works] : {std::pair<Bytes, bool>{99, false}, {100, true}}) {
    const Problem problem = MakeProblem(workload, kLink, {.budget = 130, .host = host});
    Rollout rollout(problem, neutral, /*record=*/true);
    EXPECT_EQ(rollout.Run(), works) << host;
    for (const Policy& policy : Policies()) {
      const PolicyResult result = policy.run({.graph = step.graph, .problem = problem, .search = Short()});
      if (!result.schedule) continue;
      EXPECT_LE(sim::Simulate(workload, *result.schedule, kLink).host_peak, host) << policy.name;
    }
  }
}

TEST(Driver, OneMayLeaveWhereThatIsEnough) {
  const sim::Workload workload = TwoToSwap().Workload();
  // With x there are 200 bytes for 160: a (40) or b (60) leaves; the host has room for a alone.
  const Problem problem = MakeProblem(workload, kLink, {.budget = 160, .host = 40});
  const Preferences neutral = Neutral(workload);
  Rollout rollout(problem, neutral, /*record=*/true);
  ASSERT_TRUE(rollout.Run());
  EXPECT_EQ(sim::Simulate(workload, rollout.TakeSchedule(), kLink).copied_out, 40);
}

}  // namespace
}  // namespace ebbtide::plan
