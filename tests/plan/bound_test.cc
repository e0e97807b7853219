// The bound is below every valid schedule that anything finds, and where it can be worked out by hand, it is that.
#include "plan/bound/bound.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "plan/bound/linear.h"
#include "plan/policies/checkmate.h"
#include "plan/validate.h"
#include "sim/simulate.h"
#include "tests/plan/wild_schedule.h"
#include "tests/support/hand_graph.h"
#include "tests/support/id_literals.h"
#include "tests/support/random_plans.h"

namespace ebbtide::plan {
namespace {

// ops        time  makes    needs
//   0        10    a (100)
//   1        20    b (100)
//   2         5    c (200)
//   3         5             a, b
// Op 2 has a, b and c beside each other: 400 bytes. With 300, 100 bytes of a and b are away while it runs.
sim::Workload TwoIdle() {
  sim::Workload out;
  out.time = {10, 20, 5, 5};
  out.workspace.assign(4, 0);
  out.in_backward.assign(4, false);
  using Storages = std::vector<StorageId>;
  using Ops = std::vector<OpId>;
  for (const Storages& list : {Storages{0_storage}, {1_storage}, {2_storage}, {}}) out.births.Add(list);
  for (const Storages& list : {Storages{}, {}, {}, {0_storage, 1_storage}}) out.needs.Add(list);
  for (int op = 0; op < 4; ++op) out.changes.Add({});
  out.bytes = {100, 100, 200};
  out.born = {0_op, 1_op, 2_op};
  out.last_reference = {3_op, 3_op, 2_op};
  out.outlives.assign(3, false);
  for (const Ops& list : {Ops{0_op, 3_op}, {1_op, 3_op}, {2_op}}) out.uses.Add(list);
  for (const Ops& list : {Ops{0_op}, {1_op}, {2_op}}) out.recipe.Add(list);
  return out;
}

Nanos BoundOf(Bytes budget, bool may_swap, bool may_recompute) {
  const sim::Workload workload = TwoIdle();
  // 10 bytes in a nanosecond: 100 bytes take 11 ns, a part of a nanosecond counting as one.
  const Link link{.to_device = 1e10, .to_host = 1e10, .latency = 0};
  return LowerBound(
      MakeProblem(workload, link, {.budget = budget, .may_swap = may_swap, .may_recompute = may_recompute}));
}

TEST(BoundTest, EnoughMemoryTakesThePlainTime) { EXPECT_EQ(BoundOf(400, true, true), 40); }

// a is made again: 10 ns more.
TEST(BoundTest, RecomputeOnlyTakesTheCheapestBytes) { EXPECT_EQ(BoundOf(300, false, true), 50); }

// The copy back begins when op 2 has ended, after 35 ns, and takes 11; op 3 then takes 5.
TEST(BoundTest, SwapOnlyWaitsForTheCopyBack) { EXPECT_EQ(BoundOf(300, true, false), 51); }

// Of a, x is swapped and the rest made again, before op 3: 35 + max(10 (1 - x), 11 x) + 5, which is least, 45.24, at
// x = 10/21.
TEST(BoundTest, BothAreMixed) { EXPECT_EQ(BoundOf(300, true, true), 46); }

// x + y >= 1 and x <= 1/4 (as -x >= -1/4) with costs 1 and 3: 1/4 + 3 * 3/4 = 5/2.
TEST(LinearTest, CertifiesTheLeastCost) {
  LinearProgram program;
  const int x = program.AddColumn(0, 1, 1), y = program.AddColumn(0, 1, 3);
  program.AddRow({{x, 1}, {y, 1}}, 1);
  program.AddRow({{x, -1}}, -0.25);
  const LinearProgram::Solution solution = program.Solve(1000);
  EXPECT_TRUE(solution.finished);
  EXPECT_NEAR(solution.at_least, 2.5, 1e-6);
  EXPECT_LE(solution.at_least, 2.5);
}

// Whatever is found takes at least as long as the bound says, by each of its parts.
void CheckBelow(const Task& task, Nanos bound, const sim::Schedule& schedule, std::string_view who,
                std::uint64_t seed) {
  const Nanos time = sim::Simulate(task.workload, schedule, task.problem.link).time;
  ASSERT_LE(bound, time) << who << ", seed " << seed;
}

TEST(BoundTest, IsBelowRandomSchedules) {
  int bounded = 0, schedules = 0;
  const int cases = Cases(600);
  for (int i = 0; i < cases; ++i) {
    const auto seed = static_cast<std::uint64_t>(i) + 1;
    const auto task = RandomTask(seed);
    std::mt19937_64 random(seed);
    // Many moments, so that each kind of row is there.
    const Nanos bound = LowerBound(task->problem, {.moments = 1 + random() % 40});
    ASSERT_GE(bound, sim::PlainTime(task->workload));
    bounded += bound > sim::PlainTime(task->workload);
    for (int j = 0; j < 12; ++j) {
      const Preferences preferences = RandomPreferences(task->workload, random);
      Rollout rollout(task->problem, preferences, /*record=*/true);
      if (!rollout.Run()) continue;
      ++schedules;
      ASSERT_NO_FATAL_FAILURE(CheckBelow(*task, bound, rollout.TakeSchedule(), "rollout", seed));
    }
  }
  // The test means something: many of the bounds say more than the plain time.
  EXPECT_GT(bounded, cases / 20);
  EXPECT_GT(schedules, cases);
  Tell(schedules, "rollouts: none is below the bound");
}

// Of a schedule that no planner would make, its own peak is the budget.
TEST(BoundTest, IsBelowWildSchedules) {
  int bounded = 0, schedules = 0;
  const int cases = Cases(800);
  for (int i = 0; i < cases; ++i) {
    const auto seed = static_cast<std::uint64_t>(i) + 5'000'000;
    const auto task = RandomTask(seed);
    const bool state_may_leave = i % 2 == 1;
    const std::optional<sim::Schedule> schedule = WildSchedule(task->problem, seed, state_may_leave);
    if (!schedule) continue;
    ++schedules;
    Limits limits = task->problem.limits;
    const sim::Outcome outcome = sim::Simulate(task->workload, *schedule, task->problem.link);
    limits.budget = outcome.peak;
    const Nanos bound = LowerBound(MakeProblem(task->workload, task->problem.link, limits),
                                   {.moments = 1 + seed % 40, .state_may_leave = state_may_leave});
    bounded += bound > sim::PlainTime(task->workload);
    ASSERT_LE(bound, outcome.time) << "seed " << seed;
  }
  EXPECT_GT(bounded, cases / 20);
  EXPECT_GT(schedules, cases / 2);
  Tell(schedules, "wild schedules: none is below the bound");
}

TEST(BoundTest, IsBelowEveryPolicy) {
  const int cases = Cases(150);
  for (int i = 0; i < cases; ++i) {
    const auto seed = static_cast<std::uint64_t>(i) + 1'000'000;
    const auto task = RandomTask(seed);
    const Nanos bound = LowerBound(task->problem);
    SearchOptions search;
    search.evaluations = 100;
    for (const Policy& policy : Policies()) {
      const PolicyResult result = policy.run({.graph = task->graph, .problem = task->problem, .search = search});
      if (!result.schedule) continue;
      ASSERT_NO_FATAL_FAILURE(CheckBelow(*task, bound, *result.schedule, policy.name, seed));
    }
  }
}

// ---- Against the best there is

// What Checkmate's program proves to be best is valid and above the bound. It runs ops again in the graph's order and
// at most once before each op, so that now and then a search finds better.
TEST(ExactTest, TheIntegerProgramIsValidAndRarelyBeaten) {
  const int cases = Cases(16);
  int proved = 0, beaten = 0;
  for (int i = 0; i < cases; ++i) {
    const auto seed = static_cast<std::uint64_t>(i) + 1;
    const auto task = RandomTask(seed);
    if (task->workload.ops() > 28) continue;
    Limits limits = task->problem.limits;
    limits.may_swap = false;
    limits.may_recompute = true;
    const Problem problem = MakeProblem(task->workload, task->problem.link, limits);
    const CheckmateResult best = Checkmate(problem, {.most_nodes = 50});
    SearchOptions search;
    search.evaluations = 200;
    const PolicyResult found = RunHome({.graph = task->graph, .problem = problem, .search = search});
    if (!best.proved) continue;
    ++proved;
    if (!best.schedule) {
      beaten += found.schedule.has_value();
      continue;
    }
    const Status valid =
        Validate(task->graph, *best.schedule,
                 {.budget = limits.budget, .alignment = task->workload.alignment, .needs_addresses = false});
    EXPECT_TRUE(valid) << "seed " << seed << ": " << valid.error().message;
    const Nanos time = sim::Simulate(task->workload, *best.schedule, problem.link).time;
    EXPECT_LE(LowerBound(problem), time) << "seed " << seed;
    beaten += found.schedule && sim::Simulate(task->workload, *found.schedule, problem.link).time < time;
  }
  EXPECT_GT(proved, cases / 8);
  EXPECT_LE(beaten, proved / 4);
}

// The example above has 300 bytes at best when a is made again, 10 ns.
TEST(ExactTest, MakesTheCheapestAgain) {
  const sim::Workload workload = TwoIdle();
  const Problem problem = MakeProblem(workload, {}, {.budget = 300, .may_swap = false});
  const CheckmateResult result = Checkmate(problem, {});
  ASSERT_TRUE(result.proved && result.schedule);
  EXPECT_EQ(result.schedule->steps, (IdVector<sim::StepId, OpId>{0_op, 1_op, 2_op, 0_op, 3_op}));
  EXPECT_FALSE(Checkmate(problem, {.better_than = 50}).schedule);
  EXPECT_TRUE(Checkmate(problem, {.better_than = 51}).schedule);
}

// x -> a -> b -> c, backward reads b, a, x and what comes from behind; the last gradient outlives the step, though the
// inputs of the op that makes it do not. Whatever home finds, the program finds as well.
TEST(ExactTest, FindsAScheduleWhereAGradientOutlivesTheStep) {
  HandGraph step;
  const TensorId x = step.Present(100, StorageKind::kInput);
  const TensorId a = step.Make("convolution", {x}, 100, {.time = 10});
  const TensorId b = step.Make("convolution", {a}, 100, {.time = 20});
  const TensorId c = step.Make("convolution", {b}, 100, {.time = 30});
  TensorId gradient = step.Make("loss", {c}, 100, {.time = 1});
  for (const TensorId saved : {b, a, x}) {
    gradient = step.Make("convolution_backward", {saved, gradient}, 100, {.phase = Phase::kBackward, .time = 40});
  }
  step.graph.outputs.push_back(gradient);
  std::vector<Nanos> times;
  for (const Op& op : step.graph.ops) times.push_back(op.time);
  const sim::Workload workload = sim::MakeWorkload(step.graph, times, {.alignment = 1});
  // 500 at the loss with x, a, b, c and its own result. In 400 one of a and b is made again; a takes 10.
  const Problem problem = MakeProblem(workload, {}, {.budget = 400, .may_swap = false});
  const CheckmateResult best = Checkmate(problem, {});
  ASSERT_TRUE(best.proved && best.schedule);
  EXPECT_EQ(sim::Simulate(workload, *best.schedule, {}).time, sim::PlainTime(workload) + 10);
}

}  // namespace
}  // namespace ebbtide::plan
