// Gathers stand where the GPU may begin with them, and all else where it was.
#include "parallel/execution_order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/check.h"
#include "graph/collective.h"
#include "model/model.h"
#include "parallel/rank.h"

namespace ebbtide::parallel {
namespace {

TrainingGraph Gpt2On4(DataParallel data) {
  model::ModelOptions options;
  options.batch_size = 1;
  options.device = model::Device::kCuda;
  const auto graph = model::LoadModel("gpt2", options);
  EXPECT_TRUE(graph) << graph.error().message;
  Layout layout;
  layout.gpus = 4;
  layout.data = data;
  auto rank = RankGraph(*graph, layout);
  EXPECT_TRUE(rank) << rank.error().message;
  return *std::move(rank);
}

std::size_t PlaceOf(const TrainingGraph& graph, std::string_view kind, std::string_view layer) {
  const auto found = std::ranges::find_if(
      graph.ops, [&](const Op& op) { return op.phase == Phase::kForward && op.kind == kind && op.layer == layer; });
  EXPECT_NE(found, graph.ops.end()) << kind << " of " << layer;
  return static_cast<std::size_t>(found - graph.ops.begin());
}

TEST(ExecutionOrder, AGatherWaitsForTheCopyOutOfTheOneBeforeTheLast) {
  const TrainingGraph host = Gpt2On4(DataParallel::kFsdp2), gpu = InExecutionOrder(host);
  ASSERT_TRUE(Check(gpu));
  const auto gathered = [&](const TrainingGraph& graph, int block) {
    return PlaceOf(graph, "all_gather_into_tensor", "transformer.h." + std::to_string(block));
  };
  const auto copied = [&](const TrainingGraph& graph, int block) {
    return PlaceOf(graph, "split_with_sizes_copy", "transformer.h." + std::to_string(block));
  };
  for (int block = 3; block < 12; ++block) {
    EXPECT_EQ(gathered(host, block) + 1, copied(host, block));
    EXPECT_EQ(gathered(gpu, block), copied(gpu, block - 2) + 1);
  }
}

TEST(ExecutionOrder, NothingElseMoves) {
  for (const DataParallel data : {DataParallel::kDdp, DataParallel::kFsdp1, DataParallel::kFsdp2}) {
    TrainingGraph host = Gpt2On4(data), gpu = InExecutionOrder(host);
    ASSERT_TRUE(Check(gpu));
    EXPECT_EQ(data == DataParallel::kDdp, gpu == host);
    for (TrainingGraph* graph : {&host, &gpu}) {
      std::erase_if(graph->ops,
                    [](const Op& op) { return op.phase == Phase::kForward && StreamOf(op) == Stream::kGather; });
    }
    EXPECT_EQ(host.ops, gpu.ops);
  }
}

}  // namespace
}  // namespace ebbtide::parallel
