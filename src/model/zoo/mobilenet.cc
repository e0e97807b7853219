// MobileNet v2 (Sandler et al. 2018), MobileNet v3 (Howard et al. 2019) and MNASNet (Tan et al. 2018), as torchvision
// defines them: inverted residuals, that is a wide depthwise convolution between two narrow pointwise ones.
#include "model/zoo/torchvision_blocks.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::zoo {

namespace {

// Rounded to a multiple of 8, but never below nine tenths.
std::int64_t MakeDivisible(std::int64_t channels) {
  std::int64_t rounded = std::max<std::int64_t>(8, (channels + 4) / 8 * 8);
  return 10 * rounded < 9 * channels ? rounded + 8 : rounded;
}

struct StageV2 {
  int expansion;
  std::int64_t channels;
  int blocks;
  std::int64_t stride;
};

TensorId BlockV2(Builder& b, TensorId x, const StageV2& stage, std::int64_t stride) {
  std::int64_t in = b.dim(x, 1), wide = in * stage.expansion;
  auto layer = b.Enter("conv");
  TensorId out = x;
  int index = 0;
  auto next = [&] { return std::to_string(index++); };
  if (stage.expansion != 1) out = ConvNormActivation(b, next(), out, wide, {.kernel = 1}, Activation::kRelu6);
  out = ConvNormActivation(b, next(), out, wide, {.kernel = 3, .stride = stride, .groups = wide}, Activation::kRelu6);
  out = nn::Conv2d(b, next(), out, stage.channels, {.kernel = 1, .bias = false});
  out = nn::BatchNorm2d(b, next(), out);
  return stride == 1 && in == stage.channels ? op::Add(b, x, out) : out;
}

TensorId MobileNetV2(Builder& b, const Sizes& sizes) {
  constexpr StageV2 kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                 {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  auto [x, labels] = ImageInput(b, sizes);
  {
    auto features = b.Enter("features");
    x = ConvNormActivation(b, "0", x, 32, {.kernel = 3, .stride = 2}, Activation::kRelu6);
    int index = 1;
    for (const StageV2& stage : kStages) {
      for (int i = 0; i < stage.blocks; ++i) {
        auto layer = b.EnterBlock(std::to_string(index++));
        x = BlockV2(b, x, stage, i == 0 ? stage.stride : 1);
      }
    }
    x = ConvNormActivation(b, std::to_string(index), x, 1280, {.kernel = 1}, Activation::kRelu6);
  }
  x = op::Flatten(b, op::AdaptiveAvgPool2d(b, x, 1, 1), 1);
  x = op::Dropout(b, x, 0.2);
  return op::CrossEntropy(b, nn::Linear(b, "classifier.1", x, sizes.classes), labels);
}

struct BlockV3 {
  std::int64_t kernel, wide, channels;
  bool squeezes;
  Activation activation;
  std::int64_t stride;
};

constexpr Activation kRelu = Activation::kRelu, kSwish = Activation::kHardswish;
const std::vector<BlockV3> kLarge = {
    {3, 16, 16, false, kRelu, 1},   {3, 64, 24, false, kRelu, 2},   {3, 72, 24, false, kRelu, 1},
    {5, 72, 40, true, kRelu, 2},    {5, 120, 40, true, kRelu, 1},   {5, 120, 40, true, kRelu, 1},
    {3, 240, 80, false, kSwish, 2}, {3, 200, 80, false, kSwish, 1}, {3, 184, 80, false, kSwish, 1},
    {3, 184, 80, false, kSwish, 1}, {3, 480, 112, true, kSwish, 1}, {3, 672, 112, true, kSwish, 1},
    {5, 672, 160, true, kSwish, 2}, {5, 960, 160, true, kSwish, 1}, {5, 960, 160, true, kSwish, 1}};
const std::vector<BlockV3> kSmall = {
    {3, 16, 16, true, kRelu, 2},   {3, 72, 24, false, kRelu, 2},  {3, 88, 24, false, kRelu, 1},
    {5, 96, 40, true, kSwish, 2},  {5, 240, 40, true, kSwish, 1}, {5, 240, 40, true, kSwish, 1},
    {5, 120, 48, true, kSwish, 1}, {5, 144, 48, true, kSwish, 1}, {5, 288, 96, true, kSwish, 2},
    {5, 576, 96, true, kSwish, 1}, {5, 576, 96, true, kSwish, 1}};

TensorId RunBlockV3(Builder& b, TensorId x, const BlockV3& block) {
  std::int64_t in = b.dim(x, 1);
  auto layer = b.Enter("block");
  TensorId out = x;
  int index = 0;
  auto next = [&] { return std::to_string(index++); };
  if (block.wide != in) out = ConvNormActivation(b, next(), out, block.wide, {.kernel = 1}, block.activation);
  nn::Conv depthwise{.kernel = block.kernel, .stride = block.stride, .groups = block.wide};
  out = ConvNormActivation(b, next(), out, block.wide, depthwise, block.activation);
  if (block.squeezes) out = SqueezeExcitation(b, next(), out, MakeDivisible(block.wide / 4), "hardsigmoid");
  out = ConvNormActivation(b, next(), out, block.channels, {.kernel = 1}, Activation::kNone);
  return block.stride == 1 && in == block.channels ? op::BinaryInPlace(b, "add_", out, x) : out;
}

TensorId MobileNetV3(Builder& b, const Sizes& sizes, const std::vector<BlockV3>& blocks, std::int64_t width) {
  auto [x, labels] = ImageInput(b, sizes);
  {
    auto features = b.Enter("features");
    x = ConvNormActivation(b, "0", x, 16, {.kernel = 3, .stride = 2}, Activation::kHardswish);
    int index = 1;
    for (const BlockV3& block : blocks) {
      auto layer = b.EnterBlock(std::to_string(index++));
      x = RunBlockV3(b, x, block);
    }
    x = ConvNormActivation(b, std::to_string(index), x, 6 * b.dim(x, 1), {.kernel = 1}, Activation::kHardswish);
  }
  x = op::Flatten(b, op::AdaptiveAvgPool2d(b, x, 1, 1), 1);
  auto layer = b.Enter("classifier");
  x = ActivateInPlace(b, nn::Linear(b, "0", x, width), Activation::kHardswish);
  x = op::DropoutInPlace(b, x, 0.2);
  return op::CrossEntropy(b, nn::Linear(b, "3", x, sizes.classes), labels);
}

struct StageMnas {
  std::int64_t channels, kernel, stride;
  int expansion, blocks;
};

TensorId ConvNorm(Builder& b, int index, TensorId x, std::int64_t channels, const nn::Conv& conv) {
  return nn::BatchNorm2d(b, std::to_string(index + 1), nn::Conv2d(b, std::to_string(index), x, channels, conv));
}

TensorId BlockMnas(Builder& b, TensorId x, const StageMnas& stage, std::int64_t stride) {
  std::int64_t in = b.dim(x, 1), wide = in * stage.expansion;
  auto layer = b.Enter("layers");
  nn::Conv depthwise{
      .kernel = stage.kernel, .stride = stride, .padding = stage.kernel / 2, .groups = wide, .bias = false};
  TensorId out = op::ReluInPlace(b, ConvNorm(b, 0, x, wide, {.kernel = 1, .bias = false}));
  out = op::ReluInPlace(b, ConvNorm(b, 3, out, wide, depthwise));
  out = ConvNorm(b, 6, out, stage.channels, {.kernel = 1, .bias = false});
  return stride == 1 && in == stage.channels ? op::Add(b, out, x) : out;
}

TensorId MnasNet(Builder& b, const Sizes& sizes) {
  constexpr StageMnas kStages[] = {{24, 3, 2, 3, 3}, {40, 5, 2, 3, 3},  {80, 5, 2, 6, 3},
                                   {96, 3, 1, 6, 2}, {192, 5, 2, 6, 4}, {320, 3, 1, 6, 1}};
  auto [x, labels] = ImageInput(b, sizes);
  {
    auto layers = b.Enter("layers");
    x = op::ReluInPlace(b, ConvNorm(b, 0, x, 32, {.kernel = 3, .stride = 2, .padding = 1, .bias = false}));
    x = op::ReluInPlace(b, ConvNorm(b, 3, x, 32, {.kernel = 3, .padding = 1, .groups = 32, .bias = false}));
    x = ConvNorm(b, 6, x, 16, {.kernel = 1, .bias = false});
    int index = 8;
    for (const StageMnas& stage : kStages) {
      auto stage_layer = b.Enter(std::to_string(index++));
      for (int i = 0; i < stage.blocks; ++i) {
        auto block_layer = b.EnterBlock(std::to_string(i));
        x = BlockMnas(b, x, stage, i == 0 ? stage.stride : 1);
      }
    }
    x = op::ReluInPlace(b, ConvNorm(b, index, x, 1280, {.kernel = 1, .bias = false}));
  }
  x = op::DropoutInPlace(b, op::Mean(b, x, {2, 3}, false), 0.2);
  return op::CrossEntropy(b, nn::Linear(b, "classifier.1", x, sizes.classes), labels);
}

}  // namespace

Family MobileNets() {
  const Sizes sizes{.image = 224, .classes = 1000};
  auto v3 = [](const std::vector<BlockV3>& blocks, std::int64_t width) {
    return [&blocks, width](Builder& b, const Sizes& s) { return MobileNetV3(b, s, blocks, width); };
  };
  return {"convolutional",
          {{"mobilenet_v2", "torchvision, 224x224", sizes, MobileNetV2},
           {"mobilenet_v3_small", "torchvision, 224x224", sizes, v3(kSmall, 1024)},
           {"mobilenet_v3_large", "torchvision, 224x224", sizes, v3(kLarge, 1280)},
           {"mnasnet1_0", "torchvision, 224x224", sizes, MnasNet}}};
}

}  // namespace ebbtide::model::zoo
