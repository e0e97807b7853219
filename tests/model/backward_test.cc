// What autograd would run behind small forward passes, worked out by hand.
#include "model/backward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "graph/check.h"
#include "graph/summary.h"
#include "model/nn.h"

namespace ebbtide::model {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A forward pass under construction and the backward pass behind it. Every example ends in a mean, whose own backward
// (a one, spread out, divided) is left out of what is looked at.
class BackwardTest : public ::testing::Test {
 protected:
  void Run(TensorId out) {
    TensorId loss = op::Mean(b, out, {}, false);
    std::size_t forward = b.graph().ops.size();
    gradients = RecordBackward(b, loss);
    AssignStorageKinds(b, gradients);
    b.graph().outputs = {loss};
    Status status = Check(b.graph());
    ASSERT_TRUE(status.has_value()) << status.error().message;
    for (std::size_t i = forward; i < b.graph().ops.size(); ++i) backward.push_back(&b.graph().ops[i]);
    arriving = backward[2]->outputs[0];
    backward.erase(backward.begin(), backward.begin() + 3);
  }

  std::vector<std::string> Kinds() const {
    std::vector<std::string> kinds;
    for (const Op* op : backward) kinds.push_back(op->kind);
    return kinds;
  }

  TensorId GradientOf(TensorId parameter) const {
    for (auto [of, gradient] : gradients) {
      if (of == parameter) return gradient;
    }
    return {};
  }

  // Sizes of what forward makes and backward reads, but for the loss; smallest first.
  std::vector<Bytes> SavedSizes() const {
    std::vector<bool> saved = SavedForBackward(b.graph());
    std::vector<Bytes> sizes;
    for (std::size_t i = 0; i < saved.size(); ++i) {
      if (saved[i] && StorageId(i) != StorageOf(b.graph().outputs[0])) sizes.push_back(b.graph().storages[i].bytes);
    }
    std::ranges::sort(sizes);
    return sizes;
  }

  StorageId StorageOf(TensorId id) const { return b.at(id).storage; }

  Builder b{"test", ModelOptions{}};
  ParameterGradients gradients;
  std::vector<const Op*> backward;
  TensorId arriving;  // the gradient of what the mean was taken of
};

TEST_F(BackwardTest, ALinearLayerSavesItsInputAndComputesNoGradientForTheBatch) {
  TensorId x = b.Input("x", {8, 3});
  TensorId weight = b.Parameter("weight", {5, 3});
  TensorId bias = b.Parameter("bias", {5});
  Run(op::Linear(b, x, weight, bias));
  // The bias' gradient is the sum over the 8 rows; no mm for x.
  EXPECT_THAT(Kinds(), ElementsAre("t", "mm", "sum", "view", "t"));
  EXPECT_EQ(b.shape(GradientOf(weight)), (Dims{5, 3}));
  EXPECT_EQ(b.shape(GradientOf(bias)), (Dims{5}));
  EXPECT_THAT(SavedSizes(), IsEmpty());  // x and the weight exist before the step
  EXPECT_EQ(b.graph().storage_of(GradientOf(bias)).kind, StorageKind::kGradient);
  EXPECT_EQ(b.graph().storage_of(GradientOf(bias)).bytes, 5 * 4);
  EXPECT_EQ(b.graph().storage_of(GradientOf(bias)).name, "bias.grad");
}

TEST_F(BackwardTest, AResidualGradientIsSummedInPlaceOnceNothingElseReadsIt) {
  TensorId x = b.Input("x", {8, 4});
  TensorId w1 = b.Parameter("w1", {4, 4}), w2 = b.Parameter("w2", {4, 4});
  TensorId y = op::Mm(b, x, w1);
  Run(op::Add(b, y, op::Mm(b, y, w2)));
  // `add` hands one tensor on to both sides. When the product's part for y arrives, only y's buffer still refers to
  // the first, so the sum goes into it.
  EXPECT_THAT(Kinds(), ElementsAre("t", "mm", "t", "mm", "add_", "t", "mm"));
  EXPECT_EQ(StorageOf(backward[4]->mutated[0]), StorageOf(arriving));
  EXPECT_THAT(SavedSizes(), ElementsAre(8 * 4 * 4));  // y
}

TEST_F(BackwardTest, AGradientThatArrivesTwiceAtOnceIsSummedIntoANewTensor) {
  TensorId x = b.Input("x", {8, 4});
  TensorId w = b.Parameter("w", {4, 4});
  TensorId y = op::Mm(b, x, w);
  Run(op::Add(b, y, y));
  EXPECT_THAT(Kinds(), ElementsAre("add", "t", "mm"));
}

TEST_F(BackwardTest, SharedWeightsHaveOneGradientSummedInPlace) {
  TensorId x = b.Input("x", {8, 4});
  TensorId w = b.Parameter("w", {4, 4});
  Run(op::Mm(b, op::Mm(b, x, w), w));
  // Last product first: its part for w, then for its input; the first product's part is added to the former.
  EXPECT_THAT(Kinds(), ElementsAre("t", "mm", "t", "mm", "t", "mm", "add_"));
  ASSERT_EQ(gradients.size(), 1u);
  EXPECT_EQ(StorageOf(GradientOf(w)), StorageOf(backward[1]->outputs[0]));
  std::int64_t gradient_storages = std::ranges::count(b.graph().storages, StorageKind::kGradient, &Storage::kind);
  EXPECT_EQ(gradient_storages, 1);
}

TEST_F(BackwardTest, ABroadcastOperandsGradientIsSummedDownToItsShape) {
  TensorId x = b.Input("x", {2, 3, 4, 4});
  TensorId scale = b.Parameter("scale", {3, 1, 1});
  Run(op::Mul(b, scale, x));
  EXPECT_THAT(Kinds(), ElementsAre("mul", "sum", "view"));
  EXPECT_EQ(b.shape(backward[0]->outputs[0]), (Dims{2, 3, 4, 4}));
  EXPECT_EQ(b.shape(backward[1]->outputs[0]), (Dims{1, 3, 1, 1}));
  EXPECT_EQ(b.shape(GradientOf(scale)), (Dims{3, 1, 1}));
}

TEST_F(BackwardTest, ViewsCostNothingInEitherDirection) {
  TensorId x = b.Input("x", {6, 4});
  TensorId w = b.Parameter("w", {4, 10});
  TensorId y = op::Reshape(b, op::Mm(b, x, w), {2, 3, 10});
  Run(op::Relu(b, op::Transpose(b, y, 1, 2)));
  // ReLU and its gradient leave the axes in memory as they are, so that the way back needs no copy either.
  EXPECT_THAT(Kinds(), ElementsAre("threshold_backward", "transpose", "view", "t", "mm"));
  EXPECT_EQ(StorageOf(backward[2]->outputs[0]), StorageOf(backward[0]->outputs[0]));
  EXPECT_THAT(SavedSizes(), ElementsAre(6 * 10 * 4));  // ReLU's result
}

TEST_F(BackwardTest, PartsOfAConcatenationAreViewsOfItsGradient) {
  TensorId x = b.Input("x", {8, 4});
  TensorId w1 = b.Parameter("w1", {4, 3}), w2 = b.Parameter("w2", {4, 5});
  TensorId y1 = op::Mm(b, x, w1);
  TensorId y2 = op::Mm(b, x, w2);
  Run(op::Cat(b, {y1, y2}, 1));
  EXPECT_THAT(Kinds(), ElementsAre("slice", "slice", "t", "mm", "t", "mm"));
  const Tensor& first = b.at(backward[0]->outputs[0]);
  const Tensor& second = b.at(backward[1]->outputs[0]);
  EXPECT_EQ(first.storage, StorageOf(arriving));
  EXPECT_EQ(second.storage, StorageOf(arriving));
  EXPECT_EQ(first.shape, (Dims{8, 3}));
  EXPECT_EQ(second.shape, (Dims{8, 5}));
  EXPECT_EQ(second.offset, 3);  // behind the first's columns
  EXPECT_EQ(second.stride, (Dims{8, 1}));
}

TEST_F(BackwardTest, ASplitsGradientIsAConcatenationWithZerosForWhatIsUnused) {
  TensorId x = b.Input("x", {8, 4});
  TensorId w = b.Parameter("w", {4, 6});
  std::vector<TensorId> parts = op::Split(b, op::Mm(b, x, w), {1, 2, 3}, 1);
  Run(op::Add(b, op::Sum(b, parts[0], {1}, false), op::Sum(b, parts[2], {1}, false)));
  const std::vector<std::string> kinds = Kinds();
  EXPECT_EQ(std::ranges::count(kinds, "zeros"), 1);
  EXPECT_EQ(std::ranges::count(kinds, "cat"), 1);
  for (const Op* op : backward) {
    if (op->kind != "zeros" && op->kind != "cat") continue;
    EXPECT_EQ(b.shape(op->outputs[0]), op->kind == "zeros" ? (Dims{8, 2}) : (Dims{8, 6}));
  }
}

TEST_F(BackwardTest, AnInPlaceReluKeepsOneStorageWhereAReluKeepsTwo) {
  TensorId x = b.Input("x", {2, 3, 8, 8});
  TensorId y = nn::Conv2d(b, "conv", x, 4, {.kernel = 3, .padding = 1, .bias = false});
  TensorId z = op::ReluInPlace(b, nn::BatchNorm2d(b, "bn", y));
  Run(nn::Conv2d(b, "last", z, 4, {.kernel = 1, .bias = false}));
  // The convolution's result (for batch norm), batch norm's mean and deviation, and its result after ReLU.
  EXPECT_THAT(SavedSizes(), ElementsAre(4 * 4, 4 * 4, 2 * 4 * 64 * 4, 2 * 4 * 64 * 4));
}

TEST_F(BackwardTest, AnInPlaceOpWhoseGradientNeedsItsInputKeepsACopy) {
  TensorId x = b.Input("x", {8, 4});
  TensorId w = b.Parameter("w", {4, 4});
  TensorId y = op::UnaryInPlaceKeepingInput(b, "hardswish_", op::Mm(b, x, w));
  Run(y);
  EXPECT_THAT(SavedSizes(), ElementsAre(8 * 4 * 4));
  ASSERT_EQ(backward[0]->kind, "hardswish_backward");
  EXPECT_NE(StorageOf(backward[0]->inputs[1]), StorageOf(y));
}

TEST_F(BackwardTest, WhatDoesNotLeadToTheLossIsNotRun) {
  TensorId x = b.Input("x", {8, 4});
  TensorId w = b.Parameter("w", {4, 4}), unused = b.Parameter("unused", {4, 4});
  op::Relu(b, op::Mm(b, x, unused));
  Run(op::Mm(b, x, w));
  EXPECT_THAT(Kinds(), ElementsAre("t", "mm"));
  EXPECT_FALSE(GradientOf(unused).valid());
}

TEST_F(BackwardTest, GradientsComeInTheOrderInWhichTheyAreComplete) {
  TensorId x = b.Input("x", {8, 4});
  TensorId w1 = b.Parameter("w1", {4, 4}), w2 = b.Parameter("w2", {4, 4});
  Run(op::Mm(b, op::Mm(b, x, w1), w2));
  ASSERT_EQ(gradients.size(), 2u);
  EXPECT_EQ(gradients[0].first, w2);
  EXPECT_EQ(gradients[1].first, w1);
}

TEST_F(BackwardTest, AFilterGradientOverChannelsLastImagesIsCopiedIntoTheFiltersLayout) {
  TensorId x = b.Input("x", {2, 8, 8, 3});
  TensorId scale = b.Parameter("scale", {3});
  TensorId scaled = op::Permute(b, op::Mul(b, x, scale), {0, 3, 1, 2});
  TensorId weight = b.Parameter("weight", {4, 3, 2, 2});
  TensorId y = op::Convolution(b, scaled, weight, {}, {.stride = {2, 2}});
  EXPECT_EQ(b.at(y).stride, (Dims{4 * 16, 1, 4 * 4, 4}));  // channels last as well
  Run(y);
  EXPECT_EQ(b.at(GradientOf(weight)).stride, (Dims{12, 4, 2, 1}));
  std::int64_t copies = std::ranges::count_if(backward, [](const Op* op) { return op->kind == "copy_"; });
  EXPECT_EQ(copies, 1);
}

}  // namespace
}  // namespace ebbtide::model
