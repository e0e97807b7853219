// Feasibility: the floor of sets is below every schedule, and decisions that are looked for op by op keep their budget.
#include "plan/decide/frugal.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/decide/backward.h"
#include "plan/decide/decide.h"
#include "plan/decide/reach.h"
#include "plan/make_plan.h"
#include "plan/validate.h"
#include "sim/simulate.h"
#include "tests/support/hand_graph.h"
#include "tests/support/random_plans.h"

namespace ebbtide::plan {
namespace {

constexpr Bytes kEnough = Bytes{1} << 50;

Problem WithoutCopies(const sim::Workload& workload, Bytes budget) {
  return MakeProblem(workload, {}, {.budget = budget, .may_swap = false});
}

Bytes LivePeak(const sim::Workload& workload, const sim::Schedule& schedule) {
  const IdVector<sim::StepId, Bytes> live = sim::StepBytes(workload, schedule);
  return *std::ranges::max_element(live);
}

// The last op needs a and b together, and each is made from 50 bytes of its own. Whichever is made last needs 50 + 10
// beside the 10 of the other: 70, where no op by itself needs more than 60.
TEST(FloorOfSets, LooksBehindTheNeedsOfAnOp) {
  HandGraph step;
  const TensorId x = step.Present(1, StorageKind::kInput);
  const TensorId before_a = step.Make("op", {x}, 50, {});
  const TensorId a = step.Make("op", {before_a}, 10, {});
  const TensorId before_b = step.Make("op", {x}, 50, {});
  const TensorId b = step.Make("op", {before_b}, 10, {});
  step.graph.outputs.push_back(step.Make("op", {a, b}, 1, {}));
  const sim::Workload workload = sim::MakeWorkload(step.graph, std::vector<Nanos>(5, 1), {.alignment = 1});
  const Problem problem = WithoutCopies(workload, 1000);
  EXPECT_EQ(Floor(problem), 1 + 60);
  EXPECT_EQ(FloorOfSets(problem), 1 + 70);
}

TEST(FloorOfSets, IsBelowTheSmallestPlan) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto task = RandomTask(seed);
    const Problem problem = WithoutCopies(task->workload, sim::PlainPeak(task->workload));
    const Minimum minimum = FindMinimum(problem, {.changes = 2000});
    EXPECT_GE(minimum.floor, Floor(problem)) << "seed " << seed;
    EXPECT_LE(minimum.floor, LivePeak(task->workload, minimum.schedule)) << "seed " << seed;
  }
}

// What is made from the end to the beginning is a schedule within its budget, and below what lives at once otherwise.
TEST(BackwardRuns, KeepTheirBudget) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const auto task = RandomTask(seed);
    const Problem problem = WithoutCopies(task->workload, kEnough);
    const Units units = FindUnits(problem);
    const Bytes peak = *std::ranges::max_element(problem.live), floor = Floor(problem);
    for (const double share : {0.3, 0.7}) {
      const Bytes budget = floor + static_cast<Bytes>(share * static_cast<double>(peak - floor));
      std::int64_t work = kBackwardWork;
      const auto runs = BackwardRuns(problem, units, budget, 2, work);
      if (!runs) continue;
      Retention retention(problem, units);
      retention.Load(*runs);
      const sim::Schedule schedule = retention.ToSchedule();
      EXPECT_LE(retention.peak(), budget) << "seed " << seed;
      EXPECT_LE(LivePeak(task->workload, schedule), budget) << "seed " << seed;
      const Status valid = Validate(
          task->graph, schedule, {.budget = budget, .alignment = task->workload.alignment, .needs_addresses = false});
      EXPECT_TRUE(valid) << "seed " << seed << ": " << valid.error().message;
      found += budget < peak ? 1 : 0;
    }
  }
  EXPECT_GT(found, 60);
}

// The sum has to go for the large one and be made again, and so has one of the two that it is made from, on the way.
TEST(BackwardRuns, MakeAgainWhatIsOnTheWayToOthers) {
  HandGraph step;
  const TensorId input = step.Present(1, StorageKind::kInput);
  const TensorId first = step.Make("op", {input}, 40, {}), second = step.Make("op", {first}, 50, {});
  const TensorId third = step.Make("op", {second}, 40, {}), sum = step.Make("op", {first, third}, 10, {});
  const TensorId large = step.Make("op", {input}, 95, {}), small = step.Make("op", {large}, 1, {});
  step.graph.outputs.push_back(step.Make("op", {sum, small}, 1, {}));
  const sim::Workload workload = sim::MakeWorkload(step.graph, std::vector<Nanos>(7, 1), {.alignment = 1});
  const Problem problem = WithoutCopies(workload, 101);
  const Units units = FindUnits(problem);
  std::int64_t work = kBackwardWork;
  const auto runs = BackwardRuns(problem, units, 101, 1, work);
  ASSERT_TRUE(runs);
  Retention retention(problem, units);
  retention.Load(*runs);
  EXPECT_LE(retention.peak(), 101);
  // The first once for the sum, and all four again, the first of them twice.
  EXPECT_EQ(retention.again(), 1 + 5);
}

TEST(FrugalRuns, KeepTheirBudget) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto task = RandomTask(seed);
    const Problem problem = WithoutCopies(task->workload, kEnough);
    const Units units = FindUnits(problem);
    const Bytes floor = FloorOfSets(problem), most = *std::ranges::max_element(problem.live);
    for (const Bytes budget : {floor, floor + (most - floor) / 3, most}) {
      std::int64_t work = kFrugalWork;
      const auto runs = FrugalRuns(problem, units, budget, work);
      if (!runs) continue;
      ++found;
      Retention retention(problem, units);
      retention.Load(*runs);
      EXPECT_LE(retention.peak(), budget) << "seed " << seed;
      EXPECT_LE(LivePeak(task->workload, retention.ToSchedule()), budget) << "seed " << seed;
    }
  }
  EXPECT_GT(found, 60);
}

}  // namespace
}  // namespace ebbtide::plan
