// Plans as files: what is written is read back, and nothing else is read.
#include <gtest/gtest.h>

#include <string>

#include "graph/hash.h"
#include "plan/make_plan.h"
#include "plan/plan.h"
#include "tests/support/hand_graph.h"
#include "tests/support/random_plans.h"

namespace ebbtide::plan {
namespace {

std::optional<Plan> SomePlan(std::uint64_t seed) {
  const auto task = RandomTask(5'000'000 + seed);
  SearchOptions search;
  search.evaluations = 40;
  return MakePlan(task->graph, task->problem, **FindPolicy("home"), search).plan;
}

void ExpectEqual(const Plan& a, const Plan& b) {
  EXPECT_EQ(a.graph_name, b.graph_name);
  EXPECT_EQ(a.graph_hash, b.graph_hash);
  EXPECT_EQ(a.policy, b.policy);
  EXPECT_EQ(a.gpu, b.gpu);
  EXPECT_EQ(a.budget, b.budget);
  EXPECT_EQ(a.alignment, b.alignment);
  EXPECT_EQ(a.link.to_device, b.link.to_device);
  EXPECT_EQ(a.link.to_host, b.link.to_host);
  EXPECT_EQ(a.link.latency, b.link.latency);
  EXPECT_EQ(a.time, b.time);
  EXPECT_EQ(a.peak, b.peak);
  EXPECT_EQ(a.plain_time, b.plain_time);
  EXPECT_EQ(a.plain_peak, b.plain_peak);
  EXPECT_EQ(a.schedule, b.schedule);
}

TEST(PlanJson, ReadsWhatItWrites) {
  int plans = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::optional<Plan> plan = SomePlan(seed);
    if (!plan) continue;
    ++plans;
    plan->graph_name = "a \"name\"\nof two lines";
    plan->gpu = "v100-16gb";
    const std::string text = PlanJson(*plan);
    const Result<Plan> read = ParsePlan(text, "plan.json");
    ASSERT_TRUE(read) << read.error().message;
    ExpectEqual(*plan, *read);
    EXPECT_EQ(PlanJson(*read), text);
  }
  EXPECT_GT(plans, 30);
}

TEST(PlanJson, AnyChangedByteIsSeen) {
  std::uint64_t seed = 0;
  std::optional<Plan> plan;
  while (!(plan = SomePlan(seed))) ++seed;
  const std::string text = PlanJson(*plan);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = changed[i] == '1' ? '2' : '1';
    ASSERT_FALSE(ParsePlan(changed, "plan.json")) << "byte " << i;
  }
  for (std::size_t length = 0; length < text.size(); ++length)
    ASSERT_FALSE(ParsePlan(text.substr(0, length), "plan.json"));
  ASSERT_FALSE(ParsePlan(text + " ", "plan.json"));
  EXPECT_TRUE(ParsePlan(text, "plan.json"));
}

TEST(PlanJson, ErrorsSayWhereAndWhat) {
  const Result<Plan> none = ParsePlan("{}", "plan.json");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message.find("plan.json: "), 0u) << none.error().message;
  EXPECT_EQ(none.error().message.find('\n'), std::string::npos);
}

// With a checksum that is right: whoever edits a plan can compute one.
std::string Signed(std::string text, const std::string& old_part, const std::string& new_part) {
  const std::size_t at = text.find(old_part);
  EXPECT_NE(at, std::string::npos) << old_part;
  text.replace(at, old_part.size(), new_part);
  const std::size_t end = text.rfind("\n  \"checksum\": ");
  text.resize(end);
  Fingerprint fingerprint;
  fingerprint.Add(text);
  return text + "\n  \"checksum\": \"" + fingerprint.Hex() + "\"\n}\n";
}

TEST(PlanJson, ASmallFileClaimsNoMemory) {
  HandGraph step;
  step.Present(8);
  step.Make("a", {}, 8, {.time = 1});
  const sim::Workload workload = step.Workload();
  const Problem problem = MakeProblem(workload, {}, {.budget = 16});
  const Planned planned = MakePlan(step.graph, problem, **FindPolicy("none"), {});
  ASSERT_TRUE(planned.plan);
  const std::string text = PlanJson(*planned.plan);
  ASSERT_TRUE(ParsePlan(Signed(text, "\"ops\": 1", "\"ops\": 1"), "plan.json"));
  // Two thousand million steps, with stays that reach to the last: 24 GB if it were believed.
  std::string large = Signed(text, "\"ops\": 1", "\"ops\": 2000000000");
  large = Signed(large, "[0,0,1,", "[0,0,2000000000,");
  const Result<Plan> read = ParsePlan(large, "plan.json");
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("ops"), std::string::npos) << read.error().message;
}

TEST(PlanJson, APlanIsForOneGraph) {
  const auto task = RandomTask(3);
  HandGraph step;
  step.Make("a", {}, 8, {.time = 1});
  const sim::Workload workload = step.Workload();
  const Planned planned = MakePlan(step.graph, MakeProblem(workload, {}, {.budget = 8}), **FindPolicy("none"), {});
  ASSERT_TRUE(planned.plan);
  EXPECT_TRUE(CheckPlan(*planned.plan, step.graph));
  EXPECT_FALSE(CheckPlan(*planned.plan, task->graph));
}

TEST(GraphHash, ChangesWithWhatMatters) {
  HandGraph step;
  const TensorId p = step.Present(8);
  const TensorId a = step.Make("a", {p}, 8, {});
  step.Change("b_", {a, p}, {});
  const std::string hash = GraphHash(step.graph);
  const auto changed = [&](auto change) {
    TrainingGraph graph = step.graph;
    change(graph);
    return GraphHash(graph) != hash;
  };
  EXPECT_TRUE(changed([](TrainingGraph& graph) { graph.storages[1].bytes = 9; }));
  EXPECT_TRUE(changed([](TrainingGraph& graph) { graph.storages[0].kind = StorageKind::kBuffer; }));
  EXPECT_TRUE(changed([](TrainingGraph& graph) { graph.storages[1].released_after = OpId(1); }));
  EXPECT_TRUE(changed([](TrainingGraph& graph) { graph.tensors[1].shape = {4, 2}; }));
  EXPECT_TRUE(changed([](TrainingGraph& graph) { graph.tensors[1].dtype = DType::kInt8; }));
  EXPECT_TRUE(changed([](TrainingGraph& graph) { graph.ops[0].kind = "c"; }));
  EXPECT_TRUE(changed([](TrainingGraph& graph) { graph.ops[0].phase = Phase::kBackward; }));
  EXPECT_TRUE(changed([](TrainingGraph& graph) { graph.ops[0].workspace = 1; }));
  EXPECT_TRUE(changed([](TrainingGraph& graph) { graph.ops[0].deterministic = false; }));
  EXPECT_TRUE(changed([](TrainingGraph& graph) { graph.ops[1].mutated.clear(); }));
  EXPECT_TRUE(changed([](TrainingGraph& graph) { std::swap(graph.ops[1].inputs[0], graph.ops[1].inputs[1]); }));
  EXPECT_TRUE(changed([](TrainingGraph& graph) { graph.ops.pop_back(); }));
  EXPECT_TRUE(changed([&](TrainingGraph& graph) { graph.outputs.push_back(a); }));
  // Not with names and times.
  EXPECT_FALSE(changed([](TrainingGraph& graph) { graph.name = "x"; }));
  EXPECT_FALSE(changed([](TrainingGraph& graph) { graph.storages[0].name = "x"; }));
  EXPECT_FALSE(changed([](TrainingGraph& graph) { graph.ops[0].time = 5; }));
}

}  // namespace
}  // namespace ebbtide::plan
