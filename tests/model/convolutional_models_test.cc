// Convolutional models: torchvision's and timm's parameter counts, and the structure that decides their memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "graph/check.h"
#include "graph/liveness.h"
#include "graph/summary.h"
#include "model/update_rules.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::zoo {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Options {
  std::int64_t batch = 2;
  std::optional<std::int64_t> image = {}, classes = {};
  Device device = Device::kCpu;
  std::string optimizer = "none";
};

Result<TrainingGraph> TryBuild(const std::string& name, const Options& options) {
  ModelOptions all;
  all.batch_size = options.batch;
  all.image_size = options.image;
  all.classes = options.classes;
  all.device = options.device;
  all.optimizer = options.optimizer;
  const Member* member = FindMember(name);
  return member ? Build(*member, all) : Fail("no model {}", name);
}

TrainingGraph BuildModel(const std::string& name, const Options& options = {}) {
  Result<TrainingGraph> graph = TryBuild(name, options);
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  return graph ? *graph : TrainingGraph{};
}

std::string ErrorOf(const std::string& name, const Options& options) {
  Result<TrainingGraph> graph = TryBuild(name, options);
  return graph ? "no error" : graph.error().message;
}

std::int64_t CountOps(const TrainingGraph& graph, const std::string& kind, Phase phase = Phase::kForward) {
  return std::ranges::count_if(graph.ops, [&](const Op& op) { return op.kind == kind && op.phase == phase; });
}

Bytes SavedBytes(const TrainingGraph& graph) { return Summarize(graph).saved_bytes; }

struct Count {
  const char* name;
  std::int64_t parameters;
  std::int64_t smallest_image;  // that no layer is too small for
};
constexpr Count kCounts[] = {
    {"alexnet", 61'100'840, 63},       {"vgg11", 132'863'336, 32},           {"vgg16", 138'357'544, 32},
    {"vgg19", 143'667'240, 32},        {"resnet18", 11'689'512, 1},          {"resnet34", 21'797'672, 1},
    {"resnet50", 25'557'032, 1},       {"resnet101", 44'549'160, 1},         {"resnet152", 60'192'808, 1},
    {"inception_v3", 27'161'264, 299},  // the auxiliary classifier needs 17x17 where it looks
    {"inception_v4", 42'679'816, 75},  {"densenet121", 7'978'856, 29},       {"densenet169", 14'149'480, 29},
    {"mobilenet_v2", 3'504'872, 1},    {"mobilenet_v3_small", 2'542'856, 1}, {"mobilenet_v3_large", 5'483'032, 1},
    {"mnasnet1_0", 4'383'312, 1},      {"regnet_x_400mf", 5'495'976, 1},     {"regnet_y_400mf", 4'344'144, 1},
    {"convnext_tiny", 28'589'128, 32}, {"convnext_base", 88'591'464, 32},    {"unet", 31'037'698, 16},
};

class EveryConvolutionalModel : public ::testing::TestWithParam<Count> {};
INSTANTIATE_TEST_SUITE_P(ConvolutionalModels, EveryConvolutionalModel, ::testing::ValuesIn(kCounts),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(EveryConvolutionalModel, HasThePublishedParametersWhateverTheInput) {
  EXPECT_EQ(Summarize(BuildModel(GetParam().name)).parameters, GetParam().parameters);
  EXPECT_EQ(Summarize(BuildModel(GetParam().name, {.batch = 7, .image = 320})).parameters, GetParam().parameters);
}

TEST_P(EveryConvolutionalModel, ObeysTheGraphsLawsOnBothDevices) {
  for (Device device : {Device::kCpu, Device::kCuda}) {
    for (const char* optimizer : {"sgd", "adam"}) {
      const TrainingGraph graph = BuildModel(GetParam().name, {.device = device, .optimizer = optimizer});
      Status status = Check(graph);
      EXPECT_TRUE(status.has_value()) << status.error().message;
    }
  }
}

// saved = constant + batch * per image: the constant holds batch norm's statistics and the loss.
TEST_P(EveryConvolutionalModel, SavesInProportionToTheBatch) {
  for (Device device : {Device::kCpu, Device::kCuda}) {
    const auto saved = [&](std::int64_t batch) {
      return SavedBytes(BuildModel(GetParam().name, {.batch = batch, .device = device}));
    };
    const Bytes at_2 = saved(2), at_4 = saved(4), at_32 = saved(32);
    EXPECT_EQ(at_32 - at_4, (at_4 - at_2) * 14);
    EXPECT_LT(2 * at_2 - at_4, at_2 / 10);
  }
}

TEST_P(EveryConvolutionalModel, ComputesInProportionToTheBatch) {
  const auto flops = [&](std::int64_t batch) {
    return Summarize(BuildModel(GetParam().name, {.batch = batch})).forward_flops();
  };
  EXPECT_EQ(flops(6), 3 * flops(2));
}

TEST_P(EveryConvolutionalModel, EveryParameterHasAGradientOfItsShape) {
  const TrainingGraph graph = BuildModel(GetParam().name);
  std::map<std::string, Bytes> gradients;
  for (const Storage& storage : graph.storages) {
    if (storage.kind == StorageKind::kGradient) gradients[storage.name] = storage.bytes;
  }
  std::size_t parameters = 0;
  for (const Storage& storage : graph.storages) {
    if (storage.kind != StorageKind::kParameter) continue;
    ++parameters;
    EXPECT_EQ(gradients[storage.name + ".grad"], storage.bytes) << storage.name;
  }
  EXPECT_EQ(gradients.size(), parameters);
}

TEST_P(EveryConvolutionalModel, RefusesImagesThatLeaveALayerEmpty) {
  const auto [name, parameters, smallest] = GetParam();
  const Options fits{.batch = 1, .image = smallest};
  EXPECT_EQ(ErrorOf(name, fits), "no error");
  if (smallest > 1 && std::string_view(name) != "unet") {
    const std::string error = ErrorOf(name, {.batch = 1, .image = smallest - 1});
    EXPECT_THAT(error, StartsWith(std::string(name) + ": "));
    EXPECT_THAT(error, HasSubstr("expected"));
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

TEST_P(EveryConvolutionalModel, HasAsManyClassesAsAsked) {
  const TrainingGraph graph = BuildModel(GetParam().name, {.classes = 17});
  int losses = 0;
  for (const Op& op : graph.ops) {
    if (!op.kind.starts_with("nll_loss") || op.phase != Phase::kForward) continue;
    EXPECT_EQ(graph.tensor(op.inputs[0]).shape[1], 17);
    ++losses;
  }
  EXPECT_EQ(losses, std::string_view(GetParam().name) == "inception_v3" ? 2 : 1);
}

// 13 convolutions of 3x3; the first two see the whole image with 64 channels, and keep 2 x 64 x 224 x 224 floats each.
TEST(Vgg, Vgg16) {
  const TrainingGraph graph = BuildModel("vgg16", {.batch = 1});
  EXPECT_EQ(CountOps(graph, "convolution"), 13);
  EXPECT_EQ(CountOps(graph, "max_pool2d_with_indices"), 5);
  EXPECT_EQ(CountOps(graph, "addmm"), 3);
  const Summary summary = Summarize(graph, 2);
  EXPECT_EQ(summary.largest[0].bytes, 25088 * 4096 * 4);  // the weight of the first linear layer, and its gradient
  const std::vector<bool> saved = SavedForBackward(graph);
  Bytes largest = 0;
  for (std::size_t i = 0; i < saved.size(); ++i) largest = std::max(largest, saved[i] ? graph.storages[i].bytes : 0);
  EXPECT_EQ(largest, 64 * 224 * 224 * 4);
}

// Dropout on the CPU keeps its mask as floats, scaled; on CUDA as one byte per element.
TEST(AlexNet, DropoutMasks) {
  const auto masks = [](Device device, const std::string& kind, std::size_t output) {
    const TrainingGraph graph = BuildModel("alexnet", {.batch = 2, .device = device});
    std::vector<Bytes> sizes;
    for (const Op& op : graph.ops) {
      if (op.kind == kind && op.phase == Phase::kForward) sizes.push_back(graph.storage_of(op.outputs[output]).bytes);
    }
    return sizes;
  };
  EXPECT_EQ(masks(Device::kCpu, "bernoulli_", 0), (std::vector<Bytes>{2 * 9216 * 4, 2 * 4096 * 4}));
  EXPECT_EQ(masks(Device::kCuda, "native_dropout", 1), (std::vector<Bytes>{2 * 9216, 2 * 4096}));
}

// Block b has L layers; each joins all before it, and the block joins them once more: 58 + 4 concatenations.
TEST(DenseNet, EveryLayerJoinsAllBeforeIt) {
  const TrainingGraph graph = BuildModel("densenet121", {.batch = 1});
  EXPECT_EQ(CountOps(graph, "cat"), 6 + 12 + 24 + 16 + 4);
  EXPECT_EQ(CountOps(graph, "convolution"), 1 + 2 * 58 + 3);
  std::int64_t widest = 0;
  for (const Op& op : graph.ops) {
    if (op.kind != "cat" || op.phase != Phase::kForward) continue;
    widest = std::max(widest, graph.tensor(op.outputs[0]).shape[1]);
  }
  EXPECT_EQ(widest, 512 + 16 * 32);
}

// Stem 5; A: 3 x 7; B: 4; C: 4 x 10; D: 6; E: 2 x 9; and 2 of the auxiliary classifier.
TEST(Inception, V3HasAnAuxiliaryClassifier) {
  const TrainingGraph graph = BuildModel("inception_v3");
  EXPECT_EQ(CountOps(graph, "convolution"), 5 + 3 * 7 + 4 + 4 * 10 + 6 + 2 * 9 + 2);
  EXPECT_EQ(CountOps(graph, "nll_loss_forward"), 2);
  Bytes auxiliary = 0;
  for (const Storage& storage : graph.storages) {
    if (storage.kind == StorageKind::kParameter && storage.name.starts_with("AuxLogits.")) auxiliary += storage.bytes;
  }
  // conv0 768 x 128 + norm, conv1 128 x 768 x 25 + norm, linear 768 x 1000 + 1000
  EXPECT_EQ(auxiliary / 4, (768 * 128 + 2 * 128) + (128 * 768 * 25 + 2 * 768) + (768 * 1000 + 1000));
}

// torch keeps a copy of the input of ReLU6 in place: once in the stem, the first block (it does not expand) and the
// head, twice in each of the other 16 blocks.
TEST(MobileNet, V2KeepsTheInputsOfRelu6) {
  const TrainingGraph graph = BuildModel("mobilenet_v2", {.batch = 1});
  EXPECT_EQ(CountOps(graph, "hardtanh_"), 1 + 1 + 2 * 16 + 1);
  EXPECT_EQ(CountOps(graph, "clone"), 35);
}

TEST(MobileNet, V3SqueezesSmallerThanItExpands) {
  const TrainingGraph graph = BuildModel("mobilenet_v3_large", {.batch = 1});
  std::map<std::string, std::int64_t> squeezed;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.name.ends_with("fc1.bias")) squeezed[tensor.name] = tensor.shape[0];
  }
  EXPECT_EQ(squeezed.size(), 8u);
  EXPECT_EQ(squeezed["features.4.block.2.fc1.bias"], 24);    // 72 / 4 = 18: 16 would be less than nine tenths of it
  EXPECT_EQ(squeezed["features.11.block.2.fc1.bias"], 120);  // 480 / 4
}

TEST(RegNet, StagesHaveTheirDepths) {
  const TrainingGraph graph = BuildModel("regnet_y_400mf", {.batch = 1});
  EXPECT_EQ(CountOps(graph, "sigmoid"), 1 + 3 + 6 + 6);
  // Per block 3 convolutions and 2 of squeeze and excitation, a projection per stage, the stem.
  EXPECT_EQ(CountOps(graph, "convolution"), 16 * 5 + 4 + 1);
}

// Layer norm over the channels works on views of images with channels last. What is copied: the weight gradients of the
// three downsampling convolutions, which come with channels last; and, as the gradient of the mean over the image comes
// with channels first, one gradient in each of the 3 blocks of the last stage.
TEST(ConvNext, NothingIsCopiedForLayerNorm) {
  for (Device device : {Device::kCpu, Device::kCuda}) {
    const TrainingGraph graph = BuildModel("convnext_tiny", {.device = device});
    EXPECT_EQ(CountOps(graph, "clone"), 0);
    EXPECT_EQ(CountOps(graph, "clone", Phase::kBackward), 3);
    EXPECT_EQ(CountOps(graph, "copy_", Phase::kBackward), 3);
    EXPECT_EQ(CountOps(graph, "bernoulli_"), 17);  // 18 blocks; the first is never dropped
    EXPECT_EQ(CountOps(graph, "permute"), 2 * (18 + 1 + 3 + 1));
  }
}

// Convolutions of 3x3: 3-64-64, 64-128-128, ... down; 1024-512-512, ... up. Batch norm has two per channel.
TEST(UNet, Parameters) {
  const std::int64_t widths[] = {64, 128, 256, 512, 1024};
  std::int64_t count = 64 * 2 + 2;  // 1x1 to two classes
  std::int64_t in = 3;
  for (std::int64_t width : widths) {
    count += 9 * in * width + 9 * width * width + 4 * width;
    in = width;
  }
  for (int level = 3; level >= 0; --level) {
    const std::int64_t width = widths[level];
    count += 4 * 2 * width * width + width;                          // 2x2 transposed, with bias
    count += 9 * 2 * width * width + 9 * width * width + 4 * width;  // behind the concatenation
  }
  EXPECT_EQ(Summarize(BuildModel("unet", {.batch = 1})).parameters, count);
}

TEST(UNet, ImagesMustHalveFourTimes) {
  EXPECT_EQ(ErrorOf("unet", {.image = 100}),
            "unet: --image-size 100: expected a multiple of 16, as it is halved 4 times");
  EXPECT_EQ(ErrorOf("unet", {.image = 96}), "no error");
}

TEST(ConvolutionalModels, ErrorsNameTheLayerAndWhatItNeeds) {
  EXPECT_EQ(ErrorOf("vgg16", {.image = 31}),
            "vgg16: features: input of 1x1: expected 2 or more each way, as a larger image gives");
}

TEST(ConvolutionalModels, EveryOptimizerOnBothDevices) {
  for (const std::string& optimizer : OptimizerNames()) {
    for (Device device : {Device::kCpu, Device::kCuda}) {
      for (const char* name : {"mobilenet_v3_small", "convnext_tiny", "unet"}) {
        const TrainingGraph graph = BuildModel(name, {.device = device, .optimizer = optimizer});
        Status status = Check(graph);
        EXPECT_TRUE(status.has_value()) << name << ", " << optimizer << ": " << status.error().message;
      }
    }
  }
}

}  // namespace
}  // namespace ebbtide::model::zoo
