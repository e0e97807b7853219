// The safe figure: which margins a graph gets, with their arithmetic.
#include "estimate/safety.h"

#include <gtest/gtest.h>

namespace ebbtide::estimate {
namespace {

constexpr Bytes kWeight = 100 * kMiB, kMade = 300 * kMiB;

// A forward pass that makes two storages of the same size: one by `kind` with these groups, one by relu.
TrainingGraph TwoOps(const std::string& kind, std::int64_t groups, std::int64_t channels = 8) {
  TrainingGraph graph;
  graph.storages = {{.bytes = kWeight, .kind = StorageKind::kParameter},
                    {.bytes = 1024, .kind = StorageKind::kInput},
                    {.bytes = kMade / 2},
                    {.bytes = kMade / 2}};
  graph.tensors = {{.storage = StorageId(0), .shape = {8}, .stride = {1}},
                   {.storage = StorageId(1), .shape = {2, channels}, .stride = {channels, 1}},
                   {.storage = StorageId(2), .shape = {8}, .stride = {1}},
                   {.storage = StorageId(3), .shape = {8}, .stride = {1}}};
  Op first{.kind = kind, .inputs = {TensorId(1), TensorId(0)}, .outputs = {TensorId(2)}};
  first.arguments = {{"input", TensorId(1)}, {"groups", groups}};
  graph.ops = {first, {.kind = "relu", .inputs = {TensorId(2)}, .outputs = {TensorId(3)}}};
  return graph;
}

Estimate Reserved(Bytes bytes) {
  Estimate estimate;
  estimate.peak_reserved = bytes;
  return estimate;
}

TEST(Safety, TheLargerOfAShareAndTheLeast) {
  const TrainingGraph graph = TwoOps("mm", 1);
  EXPECT_EQ(SafeTotal(Reserved(1000 * kMiB), graph).bytes, 1064 * kMiB);  // 5 % are 50 MiB
  EXPECT_EQ(SafeTotal(Reserved(2000 * kMiB), graph).bytes, 2100 * kMiB);  // 5 % are 100 MiB
  EXPECT_EQ(SafeTotal(Reserved(2000 * kMiB), graph).varying_margin, 0);
  EXPECT_DOUBLE_EQ(SafeTotal(Reserved(kMiB), graph).probability, SafetyRule().probability);
}

TEST(Safety, ConvolutionsOfTheLibraryAddAQuarterOfWhatIsNotWeights) {
  // 500 MiB without 100 MiB of weights: a quarter are 100 MiB.
  EXPECT_EQ(SafeTotal(Reserved(500 * kMiB), TwoOps("convolution", 1)).varying_margin, 100 * kMiB);
  EXPECT_EQ(SafeTotal(Reserved(500 * kMiB), TwoOps("convolution", 4)).varying_margin, 100 * kMiB);
  EXPECT_EQ(SafeTotal(Reserved(500 * kMiB), TwoOps("convolution", 8)).varying_margin, 0);  // depthwise
  EXPECT_EQ(SafeTotal(Reserved(50 * kMiB), TwoOps("convolution", 1)).varying_margin, 0);   // all of it is weights
  SafetyRule rule;
  rule.convolutions_from = 0.6;  // half of the bytes come from the convolution
  EXPECT_EQ(SafeTotal(Reserved(500 * kMiB), TwoOps("convolution", 1), rule).varying_margin, 0);
}

TEST(Safety, FewTextsMayDifferInLength) {
  TrainingGraph graph = TwoOps("mm", 1);
  graph.tensors[1].dtype = DType::kInt64;
  EXPECT_EQ(SafeTotal(Reserved(500 * kMiB), graph).varying_margin, 100 * kMiB);
  graph.tensors[1].shape = {11, 8};
  EXPECT_EQ(SafeTotal(Reserved(500 * kMiB), graph).varying_margin, 0);
  graph.tensors[1].shape = {2, 1};  // labels
  EXPECT_EQ(SafeTotal(Reserved(500 * kMiB), graph).varying_margin, 0);
}

}  // namespace
}  // namespace ebbtide::estimate
