// Lifetimes, against a second implementation that asks for every storage and every op.
#include "graph/liveness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tests/graph/random_graph.h"
#include "tests/graph/tiny_graph.h"

namespace ebbtide {
namespace {

// Straight from the words of docs/graph-format.md, op by op.
bool Touches(const TrainingGraph& graph, const Op& op, std::size_t storage) {
  const auto is_of_it = [&](TensorId id) { return graph.tensor(id).storage == StorageId(storage); };
  return std::any_of(op.inputs.begin(), op.inputs.end(), is_of_it) ||
         std::any_of(op.mutated.begin(), op.mutated.end(), is_of_it) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), is_of_it);
}

bool NaivelyLives(const TrainingGraph& graph, std::size_t storage, std::size_t during) {
  if (IsPersistent(graph.storages[storage].kind)) return true;
  bool touched_so_far = false;
  bool touched_from_now = false;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (!Touches(graph, graph.ops[i], storage)) continue;
    touched_so_far = touched_so_far || i <= during;
    touched_from_now = touched_from_now || i >= during;
  }
  bool held = graph.storages[storage].released_after >= OpId(during);
  for (const TensorId id : graph.outputs) held = held || graph.tensor(id).storage == StorageId(storage);
  return touched_so_far && (touched_from_now || held);
}

RC_GTEST_PROP(Liveness, EqualsTheNaiveOne, (std::uint64_t seed)) {
  RandomGraphOptions options;
  options.ops = *rc::gen::inRange(0, 25);
  options.arguments = false;
  const TrainingGraph graph = RandomGraph(seed, options);
  const std::vector<Lifetime> lifetimes = ComputeLiveness(graph);
  const std::vector<Bytes> live = LiveBytes(graph, lifetimes);
  RC_ASSERT(lifetimes.size() == graph.storages.size());
  RC_ASSERT(live.size() == graph.ops.size());
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    Bytes sum = graph.ops[op].workspace;
    for (std::size_t storage = 0; storage < lifetimes.size(); ++storage) {
      const bool lives = NaivelyLives(graph, storage, op);
      RC_ASSERT(lifetimes[storage].LivesDuring(OpId(op)) == lives);
      if (lives) sum += graph.storages[storage].bytes;
    }
    RC_ASSERT(live[op] == sum);
  }
  if (live.empty()) return;
  const Peak peak = PeakLiveBytes(graph, lifetimes);
  RC_ASSERT(peak.bytes == *std::max_element(live.begin(), live.end()));
  RC_ASSERT(peak.at.index() ==
            static_cast<std::size_t>(std::find(live.begin(), live.end(), peak.bytes) - live.begin()));
}

RC_GTEST_PROP(Liveness, EachStorageIsReleasedOnceOrOutlivesTheStep, (std::uint64_t seed)) {
  const TrainingGraph graph = RandomGraph(seed, {.ops = *rc::gen::inRange(0, 60), .arguments = false});
  const std::vector<Lifetime> lifetimes = ComputeLiveness(graph);
  const Releases releases(graph, lifetimes);
  std::vector<int> released(graph.storages.size());
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    const auto after = releases.After(OpId(op));
    RC_ASSERT(std::is_sorted(after.begin(), after.end()));
    for (const StorageId id : after) {
      ++released[id.index()];
      RC_ASSERT(lifetimes[id.index()].LivesDuring(OpId(op)));
      RC_ASSERT(!lifetimes[id.index()].LivesDuring(OpId(op + 1)));
    }
  }
  for (std::size_t i = 0; i < released.size(); ++i) RC_ASSERT(released[i] == (lifetimes[i].outlives_step ? 0 : 1));
}

TEST(Liveness, OfTheDocumentedExample) {
  const TrainingGraph graph = TinyGraph();
  const auto lifetime = [](std::size_t born, std::size_t end, std::size_t last_use, bool persistent, bool outlives) {
    return Lifetime{OpId(born), OpId(end), OpId(last_use), persistent, outlives};
  };
  EXPECT_THAT(ComputeLiveness(graph),
              testing::ElementsAre(lifetime(0, 8, 6, true, true),      // fc.weight: updated in place by sub_
                                   lifetime(0, 8, 5, true, true),      // batch.0
                                   lifetime(1, 8, 2, false, false),    // used by sum, held to the end of op 7
                                   lifetime(2, 8, 3, false, true),     // the loss, an output
                                   lifetime(3, 6, 5, false, false),    // ones; its expanded view is read by mm
                                   lifetime(5, 8, 7, false, false)));  // fc.weight.grad, to zero_
}

TEST(Liveness, PeakOfTheDocumentedExample) {
  const TrainingGraph graph = TinyGraph();
  const auto lifetimes = ComputeLiveness(graph);
  // 48 + 24 always; + 32 from op 1; + 4 from op 2; + 4 in ops 3 to 5; + 48 from op 5.
  EXPECT_THAT(LiveBytes(graph, lifetimes), testing::ElementsAre(72, 104, 108, 112, 112, 160, 156, 156));
  EXPECT_EQ(PeakLiveBytes(graph, lifetimes), (Peak{160, OpId(5)}));
}

TEST(Liveness, AWorkspaceCountsDuringItsOp) {
  TrainingGraph graph = TinyGraph();
  graph.ops[1].workspace = 100;
  EXPECT_EQ(PeakLiveBytes(graph, ComputeLiveness(graph)), (Peak{104 + 100, OpId(1)}));
}

TEST(Liveness, AnOutputThatNobodyReadsLivesDuringOneOp) {
  TrainingGraph graph = TinyGraph();
  graph.storages[2].released_after = OpId();
  graph.storages.push_back({.bytes = 10, .kind = StorageKind::kTemporary, .name = "mask", .released_after = {}});
  graph.tensors.push_back({.storage = StorageId(6), .dtype = DType::kBool, .shape = {10}, .stride = {1}, .name = ""});
  graph.ops[1].outputs.emplace_back(9u);
  const auto lifetimes = ComputeLiveness(graph);
  EXPECT_EQ(lifetimes[6], (Lifetime{OpId(1), OpId(2), OpId(1), false, false}));
  EXPECT_THAT(Releases(graph, lifetimes).After(OpId(1)), testing::ElementsAre(StorageId(6)));
  EXPECT_THAT(Releases(graph, lifetimes).After(OpId(2)), testing::ElementsAre(StorageId(2)));
}

TEST(Liveness, WithoutOpsWhatIsPersistentCounts) {
  TrainingGraph graph;
  graph.storages = {{7, StorageKind::kParameter, "", {}}, {5, StorageKind::kInput, "", {}}};
  const auto lifetimes = ComputeLiveness(graph);
  EXPECT_EQ(lifetimes[0], (Lifetime{OpId(0), OpId(0), OpId(), true, true}));
  EXPECT_EQ(PeakLiveBytes(graph, lifetimes), (Peak{12, OpId()}));
}

}  // namespace
}  // namespace ebbtide
