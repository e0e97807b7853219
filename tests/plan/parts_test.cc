// The small parts of planning: maxima of ranges, forecasts, chains, what follows from a problem.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>

#include "plan/make_plan.h"
#include "plan/problem.h"
#include "plan/search/chains.h"
#include "plan/search/forecast.h"
#include "tests/support/hand_graph.h"
#include "tests/support/id_literals.h"
#include "tests/support/random_plans.h"

namespace ebbtide::plan {
namespace {

using testing::ElementsAre;

constexpr Link kLink{.to_device = 1e9, .to_host = 1e9, .latency = 0};

RC_GTEST_PROP(Forecast, EqualsAnArray, (std::uint64_t seed)) {
  auto values = *rc::gen::nonEmpty(rc::gen::container<std::vector<Bytes>>(rc::gen::inRange<Bytes>(-1000, 1000)));
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  Forecast forecast((IdVector<OpId, Bytes>(values)));
  for (int i = 0; i < 40; ++i) {
    const std::size_t from = below(values.size());
    if (below(2) == 0) {
      const Bytes bytes = static_cast<Bytes>(below(400)) - 200;
      forecast.Add(OpId(from), bytes);
      for (std::size_t k = from; k < values.size(); ++k) values[k] += bytes;
    } else {
      const std::size_t to = from + 1 + below(values.size() - from);
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(from);
      const auto end = values.begin() + static_cast<std::ptrdiff_t>(to);
      RC_ASSERT(forecast.Most(OpId(from), OpId(to)) == *std::max_element(begin, end));
    }
  }
}

// p (1000) is there throughout; a (100) of p, b (50) of a, with a workspace of 8; backward reads a and b, then a.
HandGraph SmallStep() {
  HandGraph step;
  const TensorId p = step.Present(1000);
  const TensorId a = step.Make("a", {p}, 100, {.time = 10});
  const TensorId b = step.Make("b", {a}, 50, {.time = 20, .workspace = 8});
  step.Make("c", {}, 200, {.time = 40});
  step.Make("d", {a, b}, 6, {.phase = Phase::kBackward, .time = 80});
  step.Make("e", {a}, 2, {.phase = Phase::kBackward, .time = 160});
  return step;
}

TEST(Problem, WhatFollowsFromAStep) {
  const sim::Workload workload = SmallStep().Workload();
  const Problem problem = MakeProblem(workload, kLink, {});
  EXPECT_THAT(problem.clock, ElementsAre(0, 10, 30, 70, 150, 310));
  EXPECT_THAT(problem.again, ElementsAre(0, 10, 20, 40, 80, 160));
  EXPECT_THAT(problem.needed, ElementsAre(1100, 158, 200, 156, 102));
  EXPECT_THAT(problem.live, ElementsAre(1100, 1158, 1350, 1156, 1102));
  EXPECT_THAT(problem.before, ElementsAre(1000, 1100, 1150, 1150, 1100));
  // a is used by ops 0, 1, 3 and 4: from 30 to 70 is its longest rest. p is used once.
  EXPECT_EQ(problem.longest_gap[1_storage], 3_op);
  EXPECT_FALSE(problem.longest_gap[0_storage].valid());
}

TEST(Chains, CostsAddUpAndLeaveWithTheirMembers) {
  const sim::Workload workload = SmallStep().Workload();
  const Problem problem = MakeProblem(workload, kLink, {});
  constexpr StorageId kP(0), kA(1), kB(2), kC(3), kD(4), kE(5);
  Chains gone(problem);
  EXPECT_EQ(gone.CostWith(kB), 20);  // nothing is gone
  gone.Add(kA);
  EXPECT_EQ(gone.CostWith(kB), 20 + 10);  // b is made of a
  EXPECT_EQ(gone.CostWith(kC), 40);       // c of nothing
  gone.Add(kB);
  EXPECT_EQ(gone.CostWith(kD), 80 + (10 + 20));  // d is made of both, which are one group and count once
  EXPECT_EQ(gone.CostWith(kE), 160 + (10 + 20));
  gone.Remove(kA);
  EXPECT_EQ(gone.CostWith(kD), 80 + 20);
  EXPECT_EQ(gone.CostWith(kE), 160);  // made of a alone, which is back
  gone.Add(kP);                       // there throughout: nothing makes it
  EXPECT_EQ(gone.CostWith(kA), 10 + 20);
}

TEST(Problem, NoPlanNeedsLessThanTheFloor) {
  const sim::Workload workload = SmallStep().Workload();
  // c alone beside p.
  EXPECT_EQ(Floor(MakeProblem(workload, kLink, {})), 1000 + 200);
}

TEST(Minimum, IsFoundAndNamesItsOp) {
  const HandGraph step = SmallStep();
  const sim::Workload workload = step.Workload();
  const Minimum minimum = FindMinimum(MakeProblem(workload, kLink, {}));
  EXPECT_EQ(minimum.floor, 1200);
  EXPECT_EQ(minimum.found, 1200);  // a and b are swapped or made again
  EXPECT_EQ(minimum.op, OpId(2));
}

TEST(Minimum, WorksWithAddresses) {
  int tried = 0;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const auto task = RandomTask(4'000'000 + seed);
    const Minimum minimum = FindMinimum(task->problem, {.changes = 5000});
    ASSERT_GE(minimum.found, minimum.floor);
    Problem problem = task->problem;
    problem.limits.budget = minimum.found;
    SearchOptions search;
    search.evaluations = 60;
    const Planned planned = MakePlan(task->graph, problem, **FindPolicy("home"), search, &minimum);
    tried += planned.plan.has_value() ? 1 : 0;
    EXPECT_TRUE(planned.plan) << "seed " << seed << ": floor " << minimum.floor << ", found " << minimum.found;
  }
  EXPECT_GT(tried, 0);
}

// Copies alone bring every op to what it needs, so the smallest budget is hardly above the floor; and it is a promise:
// a plan for it and for all above, none slower than the smallest's, none below.
TEST(Minimum, IsAPromise) {
  const Policy& home = **FindPolicy("home");
  int below = 0;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const auto task = RandomTask(6'000'000 + seed);
    Problem problem = MakeProblem(task->workload, kLink, {.budget = sim::PlainPeak(task->workload)});
    const Minimum minimum = FindMinimum(problem, {.changes = 2000});
    problem.limits.budget = minimum.floor;
    EXPECT_EQ(FindMinimum(problem, {.changes = 2000, .threads = 2}).found, minimum.found) << "seed " << seed;
    const std::vector<Bytes> budgets = {minimum.floor, minimum.found - 1, minimum.found,
                                        minimum.found + minimum.found / 50, minimum.found + minimum.found / 5};
    for (const Bytes budget : budgets) {
      problem.limits.budget = budget;
      SearchOptions search;
      search.evaluations = 32;
      const Planned planned = MakePlan(task->graph, problem, home, search, &minimum);
      EXPECT_EQ(planned.plan.has_value(), budget >= minimum.found) << "seed " << seed << ", budget " << budget;
      if (planned.plan) {
        EXPECT_LE(planned.plan->time, minimum.time) << "seed " << seed << ", budget " << budget;
      }
      below += planned.plan ? 0 : 1;
    }
  }
  EXPECT_GT(below, 0);
}

TEST(Policies, AreFoundByNameAndTheNearestIsNamed) {
  for (const Policy& policy : Policies()) EXPECT_EQ(*FindPolicy(policy.name), &policy);
  const auto none = FindPolicy("capuchins");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("capuchin?"), std::string::npos) << none.error().message;
}

}  // namespace
}  // namespace ebbtide::plan
