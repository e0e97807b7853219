// Workspaces of the libraries: arithmetic of the copies, and that what is offered can always be fallen back from.
#include "device/workspace_rules.h"

#include <gtest/gtest.h>

#include <random>

namespace ebbtide {
namespace {

DeviceProfile Gpu(const char* name) { return FindProfile(name).value(); }

ConvolutionProblem Square(ConvolutionPass pass, std::int64_t batch, std::int64_t in, std::int64_t out,
                          std::int64_t size, std::int64_t filter) {
  return {.pass = pass,
          .batch = batch,
          .in_channels = in,
          .out_channels = out,
          .input = {size, size},
          .filter = {filter, filter},
          .output = {size, size},
          .stride = {1, 1},
          .dilation = {1, 1}};
}

// The second convolution of VGG-19 on an RTX 3060. cuDNN 9.8 answers 713,950,224 B for its forward pass: the input with
// its channels last, 377 x 64 x 86 x 86 x 4 = 713,802,752 (the 16 B are alignment), and the filter, 64 x 64 x 9 x 4 =
// 147,456.
TEST(WorkspaceRules, ForwardCopiesInputAndFilter) {
  ConvolutionProblem problem = Square(ConvolutionPass::kForward, 377, 64, 64, 86, 3);
  EXPECT_EQ(ConvolutionWorkspace(problem, Gpu("rtx3060")), 713'802'752 + 147'456 + 16);
}

// Whoever tries all ways also tries the image written out patch by patch: 377 x 64 x 9 x 86 x 86 x 4 = 6,424,224,768 B,
// which is what cuDNN 9.8 answers for a P100 and an RTX 3060 alike. Backward has no such way.
TEST(WorkspaceRules, ASearchTriesTheImagePatchByPatch) {
  ConvolutionProblem problem = Square(ConvolutionPass::kForward, 377, 64, 64, 86, 3);
  EXPECT_EQ(SearchedWorkspaces(problem, Gpu("p100")).back(), 6'424'224'768);
  EXPECT_EQ(SearchedWorkspaces(problem, Gpu("rtx3060")).back(), 6'424'224'768);
  problem.pass = ConvolutionPass::kFilterGradient;
  EXPECT_TRUE(SearchedWorkspaces(problem, Gpu("p100")).empty());
  EXPECT_GE(SearchedWorkspaces(problem, Gpu("rtx3060")).back(), 2 * Bytes{713'802'752});
}

// Its filter gradient copies both tensors and keeps one filter or more for partial sums: 1,428,080,855 to 1,445,941,615
// B are what cuDNN's first engines take.
TEST(WorkspaceRules, FilterGradientCopiesBoth) {
  ConvolutionProblem problem = Square(ConvolutionPass::kFilterGradient, 377, 64, 64, 86, 3);
  Bytes both = 2 * Bytes{713'802'752};
  Bytes workspace = ConvolutionWorkspace(problem, Gpu("rtx3060"));
  EXPECT_GE(workspace, both);
  EXPECT_LE(workspace, both + 64 * Bytes{147'456} + 16);
}

TEST(WorkspaceRules, WithoutTensorCoresNothingIsCopied) {
  for (auto pass : {ConvolutionPass::kForward, ConvolutionPass::kDataGradient, ConvolutionPass::kFilterGradient}) {
    ConvolutionProblem problem = Square(pass, 64, 256, 256, 28, 1);
    EXPECT_LE(ConvolutionWorkspace(problem, Gpu("t4")), 64 * kKiB);
    problem.allows_tf32 = false;
    EXPECT_LE(ConvolutionWorkspace(problem, Gpu("rtx3060")), 64 * kKiB);
    problem.type = ConvolutionType::kFloat64;
    EXPECT_LE(ConvolutionWorkspace(problem, Gpu("a100-40gb")), 64 * kKiB);
  }
}

// 6 B for each of 28 x 28 pixels, in steps of 128: 4704 -> 4736.
TEST(WorkspaceRules, OffsetsOfThePrecomputedGemm) {
  ConvolutionProblem problem = Square(ConvolutionPass::kForward, 64, 256, 256, 28, 1);
  problem.type = ConvolutionType::kFloat64;
  EXPECT_EQ(ConvolutionEngines(problem, Gpu("a100-40gb")).front().workspace, 4736);
}

// 253 channels of float32 are copied as 256, those of groups as they are.
TEST(WorkspaceRules, ChannelsArePadded) {
  ConvolutionProblem odd = Square(ConvolutionPass::kForward, 64, 253, 256, 28, 3);
  ConvolutionProblem even = Square(ConvolutionPass::kForward, 64, 256, 256, 28, 3);
  Bytes input = Bytes{64} * 256 * 28 * 28 * 4, filter = Bytes{256} * 256 * 9 * 4;
  EXPECT_EQ(ConvolutionWorkspace(even, Gpu("a100-40gb")), input + filter + 16);
  EXPECT_EQ(ConvolutionWorkspace(odd, Gpu("a100-40gb")), input + filter + 16);
}

// Whatever the problem, the last engine needs nothing, sizes do not overflow, and the first one grows with the batch no
// faster than all tensors twice and 64 filters.
TEST(WorkspaceRules, AnyProblemHasAWayOut) {
  std::mt19937 random(7);
  auto pick = [&](std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  for (const DeviceProfile& profile : BuiltInProfiles()) {
    for (int i = 0; i < 300; ++i) {
      ConvolutionProblem problem = Square(static_cast<ConvolutionPass>(pick(0, 2)), pick(1, 1024), 8 * pick(1, 128),
                                          8 * pick(1, 128), pick(1, 256), 2 * pick(0, 3) + 1);
      problem.type = static_cast<ConvolutionType>(pick(0, 4));
      problem.is_channels_last = pick(0, 1) == 1;
      if (pick(0, 3) == 0) problem.out_channels = problem.in_channels, problem.groups = problem.in_channels;
      std::vector<ConvolutionEngine> engines = ConvolutionEngines(problem, profile);
      ASSERT_FALSE(engines.empty());
      EXPECT_EQ(engines.back().workspace, 0);
      EXPECT_FALSE(engines.back().uses_tensor_cores);
      EXPECT_TRUE(engines.back().is_deterministic);
      Bytes item = ItemSize(problem.type);
      Bytes pixels = problem.input[0] * problem.input[1];
      Bytes tensors = item * problem.batch * pixels * (problem.in_channels + problem.out_channels);
      Bytes filter =
          item * problem.out_channels * (problem.in_channels / problem.groups) * problem.filter[0] * problem.filter[1];
      Bytes offsets = 6 * pixels + 128;
      EXPECT_LE(engines.front().workspace, 2 * tensors + 64 * filter + 16 + offsets);
    }
  }
}

// A product that overflows counts as kTooLarge: at least one copy of that size, and no more than one of each of the
// three tensors, or the sum itself would overflow.
TEST(WorkspaceRules, AbsurdSizesSaturate) {
  for (auto pass : {ConvolutionPass::kForward, ConvolutionPass::kDataGradient, ConvolutionPass::kFilterGradient}) {
    ConvolutionProblem problem = Square(pass, kTooLarge, kTooLarge, 64, kTooLarge, 3);
    const Bytes workspace = ConvolutionWorkspace(problem, Gpu("a100-40gb"));
    EXPECT_GE(workspace, kTooLarge) << static_cast<int>(pass);
    EXPECT_LE(workspace, 3 * kTooLarge + 16) << static_cast<int>(pass);
  }
}

// One LSTM layer of 32 on 4 sequences of 10: 4 gates, the cell and its output at each of 10 x 4 x 32 = 1280 places.
TEST(WorkspaceRules, RecurrentReserve) {
  RecurrentProblem problem{.layers = 1, .input_size = 24, .hidden_size = 32, .length = 10, .batch = 4};
  EXPECT_EQ(RecurrentReserve(problem), 1280 * 6 * 4);
  EXPECT_EQ(RecurrentWorkspace(problem), 1280 * 5 * 4);
  problem.layers = 2;
  problem.has_dropout = true;
  EXPECT_EQ(RecurrentReserve(problem), (2 * 6 + 1) * 1280 * 4);
  problem.is_training = false;
  EXPECT_EQ(RecurrentReserve(problem), 0);
}

TEST(WorkspaceRules, BlasAndNorms) {
  EXPECT_EQ(BlasWorkspace(Gpu("a100-40gb")), 8'519'680);
  EXPECT_EQ(BlasWorkspace(Gpu("h100-80gb")), 32 * kMiB);
  BatchNormProblem planar{.elements = 64 * 56 * 56, .channels = 64};
  EXPECT_EQ(BatchNormForwardWorkspace(planar, Gpu("rtx3060")), 0);
  EXPECT_EQ(BatchNormReserve(planar), 0);
  BatchNormProblem fused{.is_channels_last = true, .elements = 64 * 56 * 56, .channels = 64, .has_activation = true};
  EXPECT_EQ(BatchNormForwardWorkspace(fused, Gpu("rtx3060")), 2 * 4 * 64 * 28);
  EXPECT_EQ(BatchNormReserve(fused), 64 * 56 * 56 / 8);
}

}  // namespace
}  // namespace ebbtide
