// The safe figure: which margins a graph gets, with their arithmetic.
#include "estimate/safety.h"

#include <gtest/gtest.h>

namespace ebbtide::estimate {
namespace {

constexpr Bytes kWeight = 100 * kMiB, kMade = 300 * kMiB;

// A forward pass that makes two storages of the same size: one by `kind` with these groups, one by relu.
TrainingGraph TwoOps(const std::string& kind, std::int64_t groups, std::int64_t channels = 8) {
  TrainingGraph graph;
  const auto add = [&](Bytes bytes, StorageKind storage_kind, Dims shape) {
    Storage storage;
    storage.bytes = bytes;
    storage.kind = storage_kind;
    graph.storages.push_back(storage);
    Tensor tensor;
    tensor.storage = StorageId(graph.storages.size() - 1);
    tensor.shape = std::move(shape);
    graph.tensors.push_back(tensor);
  };
  add(kWeight, StorageKind::kParameter, {8});
  add(1024, StorageKind::kInput, {2, channels});
  add(kMade / 2, StorageKind::kActivation, {8});
  add(kMade / 2, StorageKind::kActivation, {8});
  Op first, second;
  first.kind = kind;
  first.inputs = {TensorId(1), TensorId(0)};
  first.outputs = {TensorId(2)};
  first.arguments = {{"input", TensorId(1)}, {"groups", groups}};
  second.kind = "relu";
  second.inputs = {TensorId(2)};
  second.outputs = {TensorId(3)};
  graph.ops = {first, second};
  return graph;
}

Estimate Reserved(Bytes bytes) {
  Estimate estimate;
  estimate.peak_reserved = bytes;
  return estimate;
}

TEST(Safety, AShareAndOneMoreBlockAndTheCode) {
  const TrainingGraph graph = TwoOps("mm", 1);
  EXPECT_EQ(SafeTotal(Reserved(2000 * kMiB), graph).bytes, (2000 + 100 + 94) * kMiB);  // 5 % are 100 MiB
  Estimate with_block = Reserved(2000 * kMiB);
  with_block.largest_passing_blocks = 30 * kMiB;
  EXPECT_EQ(SafeTotal(with_block, graph).bytes, (2000 + 100 + 30 + 94) * kMiB);
  EXPECT_EQ(SafeTotal(with_block, graph).layout_margin, (100 + 30 + 94) * kMiB);
  EXPECT_EQ(SafeTotal(with_block, graph).varying_margin, 0);
  Estimate with_context = Reserved(2000 * kMiB);
  with_context.context_margin = 70 * kMiB;  // a context that nobody has measured on this GPU
  EXPECT_EQ(SafeTotal(with_context, graph).bytes, (2000 + 100 + 94 + 70) * kMiB);
  EXPECT_EQ(SafeTotal(with_context, graph).context_margin, 70 * kMiB);
  EXPECT_DOUBLE_EQ(SafeTotal(Reserved(kMiB), graph).probability, SafetyRule().probability);
}

TEST(Safety, AFifthOfWhatIsNotWeightsForGroupedConvolutionsOfTheLibrary) {
  // 500 MiB without 100 MiB of weights: a fifth are 80 MiB, of which 5 % of the total are 25.
  EXPECT_EQ(SafeTotal(Reserved(500 * kMiB), TwoOps("convolution", 4)).varying_margin, (80 - 25) * kMiB);
  EXPECT_EQ(SafeTotal(Reserved(500 * kMiB), TwoOps("convolution", 1)).varying_margin, 0);
  EXPECT_EQ(SafeTotal(Reserved(500 * kMiB), TwoOps("convolution", 8)).varying_margin, 0);  // depthwise: not cuDNN's
  EXPECT_EQ(SafeTotal(Reserved(50 * kMiB), TwoOps("convolution", 4)).varying_margin, 0);   // all of it is weights
  SafetyRule rule;
  rule.convolutions_from = 0.6;  // half of the bytes come from the convolution
  EXPECT_EQ(SafeTotal(Reserved(500 * kMiB), TwoOps("convolution", 4), rule).varying_margin, 0);
}

TEST(Safety, GradientsDoNotVary) {
  TrainingGraph graph = TwoOps("convolution", 4);
  graph.storages[3].kind = StorageKind::kGradient;  // 150 MiB: 500 - 100 - 150 = 250, a fifth are 50
  EXPECT_EQ(SafeTotal(Reserved(500 * kMiB), graph).varying_margin, (50 - 25) * kMiB);
}

TEST(Safety, FewTextsMayDifferInLength) {
  TrainingGraph graph = TwoOps("mm", 1);
  graph.tensors[1].dtype = DType::kInt64;
  EXPECT_EQ(SafeTotal(Reserved(500 * kMiB), graph).varying_margin, (80 - 25) * kMiB);
  graph.tensors[1].shape = {11, 8};
  EXPECT_EQ(SafeTotal(Reserved(500 * kMiB), graph).varying_margin, 0);
  graph.tensors[1].shape = {2, 1};  // labels
  EXPECT_EQ(SafeTotal(Reserved(500 * kMiB), graph).varying_margin, 0);
}

}  // namespace
}  // namespace ebbtide::estimate
