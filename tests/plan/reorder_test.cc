// Other orders: those that are found compute the same and need no more, those that do not are refused, and a plan in
// another order is one for the graph as it is.
#include "graph/reorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "graph/check.h"
#include "graph/hash.h"
#include "plan/find_order.h"
#include "plan/make_plan.h"
#include "plan/validate.h"
#include "tests/support/hand_graph.h"
#include "tests/support/random_plans.h"

namespace ebbtide::plan {
namespace {

std::vector<OpId> OwnOrder(const TrainingGraph& graph) {
  std::vector<OpId> out;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) out.emplace_back(i);
  return out;
}

sim::Workload WorkloadOf(const TrainingGraph& graph) {
  std::vector<Nanos> times;
  for (const Op& op : graph.ops) times.push_back(op.time);
  return sim::MakeWorkload(graph, std::move(times), {.alignment = 1});
}

// Two branches of 100 bytes, each with a result of 1. One behind the other takes 1 + 1 + 100 (+ the input's 1); in
// turns, both large ones live at once.
TEST(FindOrder, FinishesWhatItBegan) {
  HandGraph step;
  const TensorId x = step.Present(1, StorageKind::kInput);
  const TensorId a = step.Make("op", {x}, 100, {});
  const TensorId b = step.Make("op", {x}, 100, {});
  const TensorId small_a = step.Make("op", {a}, 1, {});
  const TensorId small_b = step.Make("op", {b}, 1, {});
  step.graph.outputs.push_back(step.Make("op", {small_a, small_b}, 1, {}));
  const std::vector<OpId> order = FindOrder(step.graph, WorkloadOf(step.graph));
  ASSERT_EQ(order.size(), 5u);
  EXPECT_TRUE(ValidateOrder(step.graph, order));
  EXPECT_EQ(sim::PlainPeak(WorkloadOf(step.graph)), 1 + 200 + 1);
  EXPECT_EQ(sim::PlainPeak(WorkloadOf(Reordered(step.graph, order))), 1 + 1 + 100 + 1);
}

TEST(FindOrder, ComputesTheSame) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto task = RandomTask(seed);
    const std::vector<OpId> order = FindOrder(task->graph, task->workload);
    if (order.empty()) continue;
    ++found;
    const Status valid = ValidateOrder(task->graph, order);
    ASSERT_TRUE(valid) << "seed " << seed << ": " << valid.error().message;
    const Status checked = Check(Reordered(task->graph, order));
    ASSERT_TRUE(checked) << "seed " << seed << ": " << checked.error().message;
  }
  EXPECT_GT(found, 10);
}

// Any two neighbours may change places exactly where neither has to stay before the other: two ways to say so agree.
TEST(ValidateOrder, AgreesWithPredecessorsOnNeighbours) {
  int allowed = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const TrainingGraph graph = RandomTask(seed)->graph;
    const auto before = Predecessors(graph);
    for (std::size_t i = 0; i + 1 < graph.ops.size(); ++i) {
      std::vector<OpId> order = OwnOrder(graph);
      std::swap(order[i], order[i + 1]);
      const bool is_free = std::ranges::find(before[i + 1], OpId(i)) == before[i + 1].end() &&
                           graph.ops[i].phase == graph.ops[i + 1].phase;
      EXPECT_EQ(ValidateOrder(graph, order).has_value(), is_free) << "seed " << seed << ", op " << i;
      ++(is_free ? allowed : refused);
    }
  }
  EXPECT_GT(allowed, 50);
  EXPECT_GT(refused, 50);
}

TEST(ValidateOrder, RefusesWhatIsNoOrder) {
  const TrainingGraph graph = RandomTask(1)->graph;
  std::vector<OpId> order = OwnOrder(graph);
  EXPECT_TRUE(ValidateOrder(graph, order));
  order.back() = order.front();
  EXPECT_FALSE(ValidateOrder(graph, order));
  order.back() = OpId(graph.ops.size());
  EXPECT_FALSE(ValidateOrder(graph, order));
  order.pop_back();
  EXPECT_FALSE(ValidateOrder(graph, order));
}

TEST(ValidateOrder, KeepsTheDrawsOfRandomOps) {
  HandGraph step;
  const TensorId x = step.Present(1, StorageKind::kInput);
  const TensorId a = step.Make("dropout", {x}, 10, {});
  const TensorId b = step.Make("dropout", {x}, 10, {});
  step.graph.outputs.push_back(step.Make("op", {a, b}, 1, {}));
  const std::vector<OpId> swapped = {OpId(1), OpId(0), OpId(2)};
  EXPECT_TRUE(ValidateOrder(step.graph, swapped));
  step.graph.ops[0].random = step.graph.ops[1].random = true;
  EXPECT_FALSE(ValidateOrder(step.graph, swapped));
}

// A plan in another order goes through its file, is for the graph as it is, and for no other order of it.
TEST(PlanInAnotherOrder, IsForTheGraphAsItIs) {
  int planned = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto task = RandomTask(seed);
    const std::vector<OpId> order = FindOrder(task->graph, task->workload);
    if (order.empty()) continue;
    const TrainingGraph reordered = Reordered(task->graph, order);
    const sim::Workload workload = WorkloadOf(reordered);
    const Problem problem = MakeProblem(workload, {}, {.budget = sim::PlainPeak(workload)});
    Planned made = MakePlan(reordered, problem, **FindPolicy("none"), {});
    if (!made.plan) continue;
    ++planned;
    Plan plan = *made.plan;
    plan.order = order;
    EXPECT_FALSE(CheckPlan(plan, task->graph)) << "with the hash of another order";
    plan.graph_hash = GraphHash(task->graph);
    const Result<Plan> read = ParsePlan(PlanJson(plan), "plan");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->order, order);
    EXPECT_TRUE(CheckPlan(*read, task->graph));
    const Result<Ordered> ordered = InItsOrder(task->graph, *read);
    ASSERT_TRUE(ordered);
    EXPECT_EQ(ordered->graph, reordered);
    EXPECT_TRUE(CheckPlan(ordered->plan, reordered));
  }
  EXPECT_GT(planned, 5);
}

}  // namespace
}  // namespace ebbtide::plan
