// Which ops an estimate names as not counted.
#include "estimate/not_counted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebbtide::estimate {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One op of that kind over a matrix with these strides.
TrainingGraph OneOp(const std::string& kind, Dims stride = {8, 1}) {
  TrainingGraph graph;
  graph.storages.resize(1);
  Tensor tensor;
  tensor.storage = StorageId(0);
  tensor.shape = {4, 8};
  tensor.stride = std::move(stride);
  graph.tensors = {tensor};
  Op op;
  op.kind = kind;
  op.inputs = {TensorId(0)};
  graph.ops = {op};
  return graph;
}

TEST(NotCounted, NamesKindsWithoutARuleOnce) {
  EXPECT_THAT(NotCounted(OneOp("relu")), IsEmpty());
  EXPECT_THAT(NotCounted(OneOp("relu_")), IsEmpty());
  EXPECT_THAT(NotCounted(OneOp("sum")), IsEmpty());
  TrainingGraph graph = OneOp("sort");
  graph.ops.push_back(graph.ops.front());
  graph.ops.push_back(graph.ops.front());
  graph.ops.back().kind = "mylib::fused";
  EXPECT_THAT(NotCounted(graph), ElementsAre("scratch of aten::sort", "scratch of mylib::fused"));
}

TEST(NotCounted, NotWhatWasMeasured) {
  TrainingGraph graph = OneOp("sort");
  graph.ops.front().workspace = 512;
  EXPECT_THAT(NotCounted(graph), IsEmpty());
  EXPECT_THAT(WithoutScratchRule(graph), ElementsAre(OpId(0)));
  graph.ops.front().workspace = 0;  // measured to be none: the capture says so of the kind
  graph.meta["scratch_measured"] = "cumsum sort";
  EXPECT_THAT(NotCounted(graph), IsEmpty());
}

TEST(NotCounted, ARuleHoldsForTheLayoutsItWasMadeFor) {
  EXPECT_THAT(NotCounted(OneOp("mm", {1, 4})), IsEmpty());                           // turned
  EXPECT_THAT(NotCounted(OneOp("mm", {0, 1})), ElementsAre("scratch of aten::mm"));  // expanded: it is copied
  EXPECT_THAT(NotCounted(OneOp("_softmax", {1, 4})), IsEmpty());                     // its rule has the copy
}

TEST(NotCounted, OtherFrameworksHaveTheirOwnKernels) {
  TrainingGraph graph = OneOp("sort");
  graph.framework = Framework::kTensorflow;
  EXPECT_THAT(NotCounted(graph), IsEmpty());
}

}  // namespace
}  // namespace ebbtide::estimate
