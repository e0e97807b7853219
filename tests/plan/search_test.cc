// Searches: the same for the same seed at any number of threads, within the budget, no worse than what they begin with.
#include "plan/search/search.h"

#include <gtest/gtest.h>

#include "plan/fit_addresses.h"
#include "plan/make_plan.h"
#include "plan/plan.h"
#include "sim/simulate.h"
#include "tests/support/random_plans.h"
#include "tests/support/random_step.h"

namespace ebbtide::plan {
namespace {

// A step of some size, with half of the memory that it asks for beyond what it cannot do without.
std::unique_ptr<Task> LargerTask(std::uint64_t seed) {
  auto task = std::make_unique<Task>();
  task->graph = RandomStep(seed, {.layers = 40, .largest = 5000, .early_update = 0});
  std::vector<Nanos> times;
  for (const Op& op : task->graph.ops) times.push_back(op.time);
  task->workload = sim::MakeWorkload(task->graph, times);
  const Link link{.to_device = 50e9, .to_host = 40e9, .latency = 5};
  const Bytes floor = Floor(MakeProblem(task->workload, link, {}));
  task->problem = MakeProblem(task->workload, link, {.budget = (floor + sim::PlainPeak(task->workload)) / 2});
  return task;
}

std::string PlanOf(const Task& task, std::uint64_t seed, int threads) {
  SearchOptions search;
  search.evaluations = 300;
  search.seed = seed;
  search.threads = threads;
  const Planned planned = MakePlan(task.graph, task.problem, **FindPolicy("home"), search);
  return planned.plan ? PlanJson(*planned.plan) : "";
}

TEST(Swarm, GivesTheSameAtAnyNumberOfThreads) {
  int differ = 0;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const auto task = LargerTask(seed);
    const std::string plan = PlanOf(*task, seed, 1);
    ASSERT_NE(plan, "") << seed;
    EXPECT_EQ(PlanOf(*task, seed, 1), plan);
    EXPECT_EQ(PlanOf(*task, seed, 2), plan);
    EXPECT_EQ(PlanOf(*task, seed, 4), plan);
    differ += PlanOf(*task, seed + 1, 1) != plan ? 1 : 0;
  }
  EXPECT_GT(differ, 0);  // the seed has an effect
}

TEST(Swarm, KeepsTheBudgetAndCountsItsEvaluations) {
  const auto task = LargerTask(7);
  std::int64_t reported = 0;
  Nanos last = kInfeasible;
  SearchOptions search;
  search.evaluations = 300;
  search.progress = [&](std::int64_t done, std::int64_t /*all*/, Nanos best) {
    EXPECT_GT(done, reported);
    EXPECT_LE(best, last);
    reported = done;
    last = best;
  };
  const SearchResult found = Swarm(task->problem, search);
  EXPECT_EQ(found.evaluations, reported);
  EXPECT_GE(found.evaluations, 300);
  EXPECT_LT(found.evaluations, 300 + 2 * search.particles);
  EXPECT_EQ(found.time, last);
  EXPECT_EQ(Evaluate(task->problem, found.best), found.time);
  EXPECT_FALSE(found.stopped_early);
  EXPECT_LE(found.candidates, found.considered);
}

TEST(Swarm, StopsWhenItIsTold) {
  const auto task = LargerTask(8);
  SearchOptions search;
  search.evaluations = 1'000'000'000;
  search.stop = [] { return true; };
  const SearchResult found = Swarm(task->problem, search);
  EXPECT_TRUE(found.stopped_early);
  EXPECT_LT(found.evaluations, 1000);
}

TEST(Swarm, AStepThatFitsTakesItsPlainTime) {
  auto task = LargerTask(9);
  task->problem = MakeProblem(task->workload, task->problem.link, {.budget = sim::PlainPeak(task->workload)});
  SearchOptions search;
  search.evaluations = 60;
  EXPECT_EQ(Swarm(task->problem, search).time, sim::PlainTime(task->workload));
}

TEST(Swarm, BelowTheFloorNothingIsFound) {
  auto task = LargerTask(10);
  task->problem = MakeProblem(task->workload, task->problem.link, {.budget = Floor(task->problem) - 1});
  SearchOptions search;
  search.evaluations = 60;
  EXPECT_EQ(Swarm(task->problem, search).time, kInfeasible);
}

// What is left out because it would take too long would have taken too long.
TEST(Evaluate, EndsEarlyOnlyWhereTheTimeIsAboveTheLimit) {
  int feasible = 0;
  std::mt19937_64 random(2);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const auto task = LargerTask(seed);
    for (int i = 0; i < 30; ++i) {
      const Preferences preferences = RandomPreferences(task->workload, random);
      const Nanos time = Evaluate(task->problem, preferences);
      if (time == kInfeasible) continue;
      ++feasible;
      EXPECT_EQ(Evaluate(task->problem, preferences, time), time);
      EXPECT_EQ(Evaluate(task->problem, preferences, time / 2), kInfeasible);
    }
  }
  EXPECT_GE(feasible, 60);
}

TEST(FitAddresses, KeepsTheBudgetAtAnyNumberOfThreads) {
  int found = 0;
  std::mt19937_64 random(3);
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const auto task = LargerTask(seed);
    std::vector<Preferences> preferences;
    for (int i = 0; i < 3; ++i) preferences.push_back(RandomPreferences(task->workload, random));
    SearchOptions search;
    const auto one = FitAddresses(task->problem, preferences, 0, search);
    search.threads = 4;
    const auto four = FitAddresses(task->problem, preferences, 0, search);
    ASSERT_EQ(one.has_value(), four.has_value());
    if (!one) continue;
    ++found;
    EXPECT_EQ(one->time, four->time);
    EXPECT_EQ(one->height, four->height);
    EXPECT_EQ(one->schedule.steps, four->schedule.steps);
    EXPECT_LE(one->height, task->problem.limits.budget);
    EXPECT_EQ(sim::Simulate(task->workload, one->schedule, task->problem.link).time, one->time);
    for (const sim::Stay& stay : one->schedule.stays) {
      EXPECT_LE(stay.address + task->workload.bytes[stay.storage], one->height);
    }
  }
  EXPECT_GE(found, 4);
}

TEST(EvaluateAll, DoesNotDependOnThreads) {
  const auto task = LargerTask(11);
  std::mt19937_64 random(1);
  std::vector<Preferences> preferences;
  for (int i = 0; i < 20; ++i) preferences.push_back(RandomPreferences(task->workload, random));
  const std::vector<Nanos> limits(preferences.size(), kInfeasible);
  const auto times = EvaluateAll(task->problem, preferences, limits, 1);
  EXPECT_EQ(EvaluateAll(task->problem, preferences, limits, 4), times);
  EXPECT_EQ(EvaluateAll(task->problem, preferences, limits, 50), times);
}

}  // namespace
}  // namespace ebbtide::plan
