// Time over budget: round budgets, and a curve that knows at every point what it knows at any.
#include "plan/pareto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "tests/support/random_plans.h"

namespace ebbtide::plan {
namespace {

using testing::ElementsAre;

TEST(ParetoBudgets, AreRoundSharesAndTheMinimum) {
  EXPECT_THAT(ParetoBudgets(1000, 250), ElementsAre(1000, 900, 800, 700, 600, 500, 400, 300, 250));
  // From 37 %: in steps of 5, the finest with fewer than 14.
  EXPECT_THAT(ParetoBudgets(1000, 370),
              ElementsAre(1000, 950, 900, 850, 800, 750, 700, 650, 600, 550, 500, 450, 400, 370));
  EXPECT_THAT(ParetoBudgets(1000, 988), ElementsAre(1000, 999, 998, 997, 996, 995, 994, 993, 992, 991, 990, 989, 988));
  EXPECT_THAT(ParetoBudgets(1000, 300), ElementsAre(1000, 900, 800, 700, 600, 500, 400, 300));  // once
}

TEST(ParetoBudgets, OfAStepThatNothingMakesSmaller) {
  EXPECT_THAT(ParetoBudgets(1000, 1000), ElementsAre(1000));
  EXPECT_THAT(ParetoBudgets(1000, 1040), ElementsAre(1040));
}

TEST(ParetoBudgets, AreFewAtAnyMinimum) {
  for (Bytes minimum = 1; minimum < 1'000'000; minimum += 997) {
    const std::vector<Bytes> budgets = ParetoBudgets(1'000'000, minimum);
    EXPECT_LE(budgets.size(), 14u) << minimum;
    EXPECT_GE(budgets.size(), minimum < 990'000 ? 6u : 2u) << minimum;
    EXPECT_EQ(budgets.front(), 1'000'000);
    EXPECT_EQ(budgets.back(), minimum);
    EXPECT_TRUE(std::ranges::is_sorted(budgets, std::greater<>())) << minimum;
  }
}

std::shared_ptr<const Planned> PlanThatTakes(Nanos time, Bytes peak) {
  Planned planned;
  planned.plan.emplace();
  planned.plan->time = time;
  planned.plan->peak = peak;
  return std::make_shared<const Planned>(std::move(planned));
}

TEST(ShareKnowledge, APlanServesEveryBudgetFromItsPeakUp) {
  std::vector<ParetoPoint> points{{.budget = 60, .planned = PlanThatTakes(130, 55), .lower_bound = 110},
                                  {.budget = 100, .planned = PlanThatTakes(101, 80), .lower_bound = 100},
                                  {.budget = 80, .planned = PlanThatTakes(140, 70), .lower_bound = 105},
                                  {.budget = 57, .planned = nullptr, .lower_bound = 108},
                                  {.budget = 50, .planned = nullptr, .lower_bound = 0}};
  ShareKnowledge(points);
  std::vector<Bytes> budgets;
  std::vector<Nanos> times, bounds;
  for (const ParetoPoint& point : points) {
    budgets.push_back(point.budget);
    times.push_back(point.feasible() ? point.planned->plan->time : -1);
    bounds.push_back(point.lower_bound);
  }
  EXPECT_THAT(budgets, ElementsAre(100, 80, 60, 57, 50));
  // The plan of peak 80 is the best for 80 too; that of peak 55 serves 57, for which none was found.
  EXPECT_THAT(times, ElementsAre(101, 101, 130, 130, -1));
  // What is needed with 60 is needed with less.
  EXPECT_THAT(bounds, ElementsAre(100, 105, 110, 110, 110));
}

TEST(Pareto, TimeNeverRisesWithTheBudget) {
  const Policy& policy = **FindPolicy("home");
  int curves = 0;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const auto task = RandomTask(seed);
    const Minimum minimum = FindMinimum(task->problem, {.changes = 5000});
    const Bytes peak = sim::PlainPeak(task->workload), least = std::min(minimum.found, peak);
    const std::vector<Bytes> budgets{peak, (peak + least) / 2, (peak + 4 * least) / 5, minimum.found};
    ParetoOptions options;
    options.search.evaluations = 16;
    const auto points = Pareto(task->graph, task->problem, policy, budgets, {}, options);
    ASSERT_EQ(points.size(), budgets.size());
    curves += points.back().feasible() && points.back().planned->plan->time > points[0].planned->plan->time ? 1 : 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (!points[i].feasible()) continue;
      EXPECT_LE(points[i].planned->plan->peak, points[i].budget) << seed;
      EXPECT_GE(points[i].planned->plan->time, points[i].lower_bound) << seed;
      if (i == 0) continue;
      ASSERT_TRUE(points[i - 1].feasible()) << seed;
      EXPECT_LE(points[i - 1].planned->plan->time, points[i].planned->plan->time) << seed;
      EXPECT_LE(points[i - 1].lower_bound, points[i].lower_bound) << seed;
    }
    // Side by side they are the same.
    options.threads = 3;
    std::atomic<int> calls = 0;
    options.progress = [&](std::size_t, double) { ++calls; };
    const auto again = Pareto(task->graph, task->problem, policy, budgets, {}, options);
    EXPECT_GT(calls, 0);
    ASSERT_EQ(again.size(), points.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
      ASSERT_EQ(again[i].feasible(), points[i].feasible());
      EXPECT_EQ(again[i].lower_bound, points[i].lower_bound);
      if (!again[i].feasible()) continue;
      EXPECT_EQ(PlanJson(*again[i].planned->plan), PlanJson(*points[i].planned->plan));
    }
  }
  EXPECT_GE(curves, 1);  // memory costs time
}

}  // namespace
}  // namespace ebbtide::plan
