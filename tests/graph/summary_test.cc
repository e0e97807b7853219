// The numbers of `inspect`, on graphs small enough to add up by hand.
#include "graph/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "tests/graph/random_graph.h"
#include "tests/graph/tiny_graph.h"

namespace ebbtide {
namespace {

std::size_t Index(StorageKind kind) { return static_cast<std::size_t>(kind); }

TEST(Summary, OfTheDocumentedExample) {
  const Summary summary = Summarize(TinyGraph());
  EXPECT_EQ(summary.parameters, 12);  // 4 x 3; three tensors are views of them
  EXPECT_EQ(summary.ops, 8);
  EXPECT_EQ(summary.tensors, 9);
  EXPECT_EQ(summary.storages, 6);
  EXPECT_THAT(summary.ops_by_phase, testing::ElementsAre(3, 3, 2));
  EXPECT_THAT(summary.flops_by_phase, testing::ElementsAre(48, 48, 0));
  EXPECT_EQ(summary.forward_flops(), 48);
  EXPECT_EQ(summary.time, 900);
  EXPECT_EQ(summary.peak, (Peak{160, OpId(5)}));
  // Of the forward's two storages the backward reads the loss (ones_like) and not mm's output. batch.0 and
  // fc.weight are read, but not made.
  EXPECT_EQ(summary.saved_bytes, 4);
  EXPECT_EQ(summary.bytes_by_kind[Index(StorageKind::kParameter)], 48);
  EXPECT_EQ(summary.bytes_by_kind[Index(StorageKind::kActivation)], 32 + 4);
  EXPECT_EQ(summary.bytes_by_kind[Index(StorageKind::kGradient)], 48);
}

TEST(Summary, KindsByFlopsThenByCount) {
  const Summary summary = Summarize(TinyGraph());
  std::vector<std::string> kinds;
  for (const KindSummary& kind : summary.kinds) kinds.push_back(kind.kind);
  EXPECT_THAT(kinds, testing::ElementsAre("mm", "expand", "ones_like", "sub_", "sum", "t", "zero_"));
  EXPECT_THAT(summary.kinds[0].ops, testing::ElementsAre(1, 1, 0));
  EXPECT_EQ(summary.kinds[0].flops, 96);
  EXPECT_EQ(summary.kinds[6].time, 900);
}

TEST(Summary, LargestStoragesWithNameAndProducer) {
  const Summary summary = Summarize(TinyGraph(), 3);
  ASSERT_EQ(summary.largest.size(), 3u);
  // 48 twice: the lower number first. Then 32.
  EXPECT_EQ(summary.largest[0].storage, StorageId(0));
  EXPECT_EQ(summary.largest[0].name, "fc.weight");
  EXPECT_FALSE(summary.largest[0].producer.valid());
  EXPECT_EQ(summary.largest[1].storage, StorageId(5));
  EXPECT_EQ(summary.largest[1].producer, OpId(5));
  EXPECT_EQ(summary.largest[2].storage, StorageId(2));
  EXPECT_EQ(summary.largest[2].shape, (Dims{2, 4}));
}

TEST(Summary, ViewsAreSavedAsTheirStorageOnce) {
  TrainingGraph graph = TinyGraph();
  // A view of mm's output, made in forward, is read twice in backward.
  graph.tensors.push_back(graph.tensors[3]);
  graph.ops[2].outputs.emplace_back(9u);
  graph.ops[3].inputs.emplace_back(9u);
  graph.ops[4].inputs.emplace_back(9u);
  EXPECT_EQ(Summarize(graph).saved_bytes, 4 + 32);
  EXPECT_THAT(SavedForBackward(graph), testing::ElementsAre(false, false, true, true, false, false));
}

TEST(Summary, HalfPrecisionParametersCountTheirElements) {
  TrainingGraph graph;
  graph.storages = {{20, StorageKind::kParameter, "w", {}}, {20, StorageKind::kBuffer, "b", {}}};
  graph.tensors = {{.storage = StorageId(0), .dtype = DType::kBFloat16, .shape = {10}, .stride = {1}, .name = ""}};
  EXPECT_EQ(Summarize(graph).parameters, 10);
}

RC_GTEST_PROP(Summary, PartsAddUpToTheWhole, (std::uint64_t seed)) {
  const TrainingGraph graph = RandomGraph(seed, {.ops = *rc::gen::inRange(0, 40)});
  const Summary summary = Summarize(graph, 5);
  std::int64_t flops = 0;
  Bytes bytes = 0;
  Bytes saved = 0;
  const std::vector<bool> is_saved = SavedForBackward(graph);
  for (const Op& op : graph.ops) flops += op.flops;
  for (std::size_t i = 0; i < graph.storages.size(); ++i) {
    bytes += graph.storages[i].bytes;
    if (is_saved[i]) saved += graph.storages[i].bytes;
  }
  const auto sum = [](const auto& parts) { return std::accumulate(parts.begin(), parts.end(), std::int64_t{0}); };
  RC_ASSERT(sum(summary.ops_by_phase) == static_cast<std::int64_t>(graph.ops.size()));
  RC_ASSERT(sum(summary.flops_by_phase) == flops);
  RC_ASSERT(sum(summary.bytes_by_kind) == bytes);
  RC_ASSERT(summary.saved_bytes == saved);
  std::int64_t ops_of_kinds = 0;
  for (const KindSummary& kind : summary.kinds) ops_of_kinds += sum(kind.ops);
  RC_ASSERT(ops_of_kinds == summary.ops);
  RC_ASSERT(summary.largest.size() == std::min<std::size_t>(5, graph.storages.size()));
}

}  // namespace
}  // namespace ebbtide
