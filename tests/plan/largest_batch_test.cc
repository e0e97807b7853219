// The largest batch with a plan, on a step whose answer can be worked out by hand.
#include "plan/largest_batch.h"

#include <gtest/gtest.h>

#include "tests/support/hand_graph.h"

namespace ebbtide::plan {
namespace {

// At batch n:
//   op 0: 1,000 ns, makes a (100 n)
//   op 1: 2,000 ns, makes b (100 n)
//   op 2: 500 ns, makes c (200 n), which nothing reads
//   op 3: 500 ns, reads a and b
// Everything kept: 400 n during op 2, 4,000 ns. With a made again: 300 n, 5,000 ns. With a and b made again: 200 n,
// 7,000 ns. Op 2 alone takes 200 n, so that no plan needs less.
Result<std::unique_ptr<BatchStep>> StepOf(std::int64_t batch) {
  HandGraph step;
  const TensorId a = step.Make("a", {}, 100 * batch, {.time = 1000});
  const TensorId b = step.Make("b", {}, 100 * batch, {.time = 2000});
  step.Make("c", {}, 200 * batch, {.time = 500});
  step.Run("read", {a, b}, {}, {.phase = Phase::kBackward, .time = 500});
  auto out = std::make_unique<BatchStep>();
  out->workload = step.Workload();
  out->graph = std::move(step.graph);
  return out;
}

BatchOptions OptionsOf(double slowdown, const char* policy = "home") {
  BatchOptions options;
  options.policy = *FindPolicy(policy);
  options.slowdown = slowdown;
  options.limits = {.budget = 4000, .may_swap = false};
  options.search.evaluations = 60;
  return options;
}

void ExpectBatch(const BatchOptions& options, std::int64_t batch, Nanos time, Obstacle obstacle,
                 std::int64_t none_from) {
  const auto found = FindLargestBatch(StepOf, options);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->batch, batch);
  EXPECT_EQ(found->next, batch + 1);
  EXPECT_EQ(found->obstacle, obstacle);
  EXPECT_EQ(found->none_from, none_from);
  ASSERT_TRUE(found->plan);
  EXPECT_EQ(found->plan->time, time);
  EXPECT_EQ(found->plan->plain_time, 4000);
  EXPECT_LE(found->plan->peak, options.limits.budget);
  const auto step = StepOf(batch);
  EXPECT_TRUE(CheckPlan(*found->plan, (*step)->graph));
}

// 400 n <= 4,000: n = 10.
TEST(LargestBatch, WithoutPlans) { ExpectBatch(OptionsOf(2, "none"), 10, 4000, Obstacle::kMemory, 21); }

// At 11, 400 bytes of a's 1,100 at least are made again: 364 ns of the 200 that are allowed.
TEST(LargestBatch, NoPlanIsFastEnough) { ExpectBatch(OptionsOf(1.05), 10, 4000, Obstacle::kLeastTime, 11); }

// A storage is made again as a whole: 1.25 times the time. The bound, which counts bytes, asks for
// (400 n - 4,000) / (100 n) of 1,000 ns: 667 of the 800 that are allowed at 12, 923 at 13.
TEST(LargestBatch, TheLimitOnTime) { ExpectBatch(OptionsOf(1.2), 10, 4000, Obstacle::kTime, 13); }

// 300 n <= 4,000: n = 13. At 14, (400 * 14 - 4,000 - 1,400) / 1,400 of b's 2,000 ns come on top.
TEST(LargestBatch, OneStorageMadeAgain) { ExpectBatch(OptionsOf(1.25), 13, 5000, Obstacle::kLeastTime, 14); }

// 200 n <= 4,000: n = 20, at exactly 1.75 times the time.
TEST(LargestBatch, TheFloor) {
  ExpectBatch(OptionsOf(1.75), 20, 7000, Obstacle::kFloor, 21);
  ExpectBatch(OptionsOf(2), 20, 7000, Obstacle::kFloor, 21);
}

TEST(LargestBatch, NoneAtAll) {
  BatchOptions options = OptionsOf(2);
  options.limits.budget = 199;
  const auto found = FindLargestBatch(StepOf, options);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->batch, 0);
  EXPECT_FALSE(found->plan);
  EXPECT_EQ(found->obstacle, Obstacle::kFloor);
  EXPECT_EQ(found->none_from, 1);
}

TEST(LargestBatch, NothingInTheWay) {
  BatchOptions options = OptionsOf(2);
  options.most = 7;
  const auto found = FindLargestBatch(StepOf, options);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->batch, 7);
  EXPECT_EQ(found->next, 0);
  EXPECT_EQ(found->obstacle, Obstacle::kNone);
  EXPECT_EQ(found->none_from, 0);
}

TEST(LargestBatch, DoesNotDependOnThreads) {
  BatchOptions options = OptionsOf(1.75);
  const auto one = FindLargestBatch(StepOf, options);
  options.search.threads = 3;
  const auto three = FindLargestBatch(StepOf, options);
  ASSERT_TRUE(one && three && one->plan && three->plan);
  EXPECT_EQ(PlanJson(*one->plan), PlanJson(*three->plan));
  EXPECT_EQ(one->trials, three->trials);
}

TEST(LargestBatch, TellsHowFarItIs) {
  BatchOptions options = OptionsOf(1.75);
  std::int64_t reports = 0, last = 0;
  options.progress = [&](std::int64_t tried, std::int64_t fits, std::int64_t fails) {
    ++reports;
    EXPECT_GE(fits, last);
    EXPECT_GT(tried, 0);
    if (fails > 0) {
      EXPECT_GT(fails, fits);
    }
    last = fits;
  };
  const auto found = FindLargestBatch(StepOf, options);
  ASSERT_TRUE(found);
  EXPECT_EQ(reports, found->trials);
  EXPECT_EQ(last, 20);
}

TEST(LargestBatch, AnErrorEndsTheSearch) {
  const StepAt only_odd = [](std::int64_t batch) -> Result<std::unique_ptr<BatchStep>> {
    if (batch % 2 == 0) return Fail("batch {}: expected an odd one", batch);
    return StepOf(batch);
  };
  const auto found = FindLargestBatch(only_odd, OptionsOf(2));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message, "batch 2: expected an odd one");
}

}  // namespace
}  // namespace ebbtide::plan
