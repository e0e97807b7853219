// Units that FullyShardedDataParallel cuts up: found by the ops that gather them.
#include "estimate/wrapped_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/collective.h"

namespace ebbtide::estimate {
namespace {

using ::testing::ElementsAre;

// Two parameters of which each of four ranks has 100 and 50 bytes, gathered into `views` as one.
TrainingGraph Gathered(const char* views) {
  TrainingGraph graph;
  graph.storages = {{100, StorageKind::kParameter, "a", {}},
                    {50, StorageKind::kParameter, "b", {}},
                    {600, StorageKind::kTemporary, "", {}}};
  for (int i = 0; i < 3; ++i) graph.tensors.push_back({StorageId(i), DType::kUInt8, {1}, {1}, 0, ""});
  Op gather;
  gather.kind = "all_gather_into_tensor";
  gather.inputs = {TensorId(0), TensorId(1)};
  gather.outputs = {TensorId(2)};
  MarkCollective(gather, 450, Stream::kGather, {"data", 4});
  Op use;
  use.kind = views;
  use.inputs = {TensorId(2)};
  graph.ops = {gather, use};
  return graph;
}

TEST(WrappedUnits, AreTheParametersOfAllRanks) {
  const WholeUnits units = WrappedUnits(Gathered("_use_unsharded_views"));
  ASSERT_EQ(units.size(), 1U);
  EXPECT_THAT(units.at(StorageId(0)), ElementsAre(400, 200));
}

// Three ranks have as much; floats are made on the host, and sent unit by unit.
TEST(StoredForOthers, CountsWhatIsStoredInFewBits) {
  TrainingGraph graph = Gathered("_use_unsharded_views");
  EXPECT_EQ(StoredForOthers(graph), 3 * 150);
  for (Tensor& tensor : graph.tensors) tensor.dtype = DType::kBFloat16;
  EXPECT_EQ(StoredForOthers(graph), 0);
}

TEST(WrappedUnits, AreNoneWhereParametersAreCopiedOut) {
  EXPECT_TRUE(WrappedUnits(Gathered("split_with_sizes_copy")).empty());
}

}  // namespace
}  // namespace ebbtide::estimate
