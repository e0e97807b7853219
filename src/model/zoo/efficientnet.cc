// EfficientNet-B0 (Tan and Le 2019), as torchvision defines it: inverted residuals with squeeze-and-excitation, SiLU
// and stochastic depth.
#include "model/zoo/torchvision_blocks.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::zoo {

namespace {

struct Stage {
  int expansion;
  std::int64_t kernel, stride, channels;
  int blocks;
};

TensorId Block(Builder& b, TensorId x, const Stage& stage, std::int64_t stride, double drop) {
  const std::int64_t in = b.dim(x, 1), wide = in * stage.expansion;
  TensorId out = x;
  {
    auto layer = b.Enter("block");
    int index = 0;
    auto next = [&] { return std::to_string(index++); };
    if (wide != in) out = ConvNormActivation(b, next(), out, wide, {.kernel = 1}, Activation::kSilu);
    const nn::Conv depthwise{.kernel = stage.kernel, .stride = stride, .groups = wide};
    out = ConvNormActivation(b, next(), out, wide, depthwise, Activation::kSilu);
    out = SqueezeExcitation(b, next(), out, std::max<std::int64_t>(1, in / 4), "sigmoid", Activation::kSilu);
    out = ConvNormActivation(b, next(), out, stage.channels, {.kernel = 1}, Activation::kNone);
  }
  if (stride != 1 || in != stage.channels) return out;
  return op::BinaryInPlace(b, "add_", op::StochasticDepth(b, out, drop), x);
}

TensorId EfficientNetB0(Builder& b, const Sizes& sizes) {
  constexpr Stage kStages[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                               {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
  constexpr double kDrop = 0.2;  // of both kinds; that of blocks rises to it
  int blocks = 0, done = 0;
  for (const Stage& stage : kStages) blocks += stage.blocks;
  auto [x, labels] = ImageInput(b, sizes);
  {
    auto features = b.Enter("features");
    x = ConvNormActivation(b, "0", x, 32, {.kernel = 3, .stride = 2}, Activation::kSilu);
    int index = 1;
    for (const Stage& stage : kStages) {
      auto stage_layer = b.Enter(std::to_string(index++));
      for (int i = 0; i < stage.blocks; ++i, ++done) {
        auto layer = b.EnterBlock(std::to_string(i));
        x = Block(b, x, stage, i == 0 ? stage.stride : 1, kDrop * done / blocks);
      }
    }
    x = ConvNormActivation(b, std::to_string(index), x, 1280, {.kernel = 1}, Activation::kSilu);
  }
  x = op::Flatten(b, op::AdaptiveAvgPool2d(b, x, 1, 1), 1);
  x = op::DropoutInPlace(b, x, kDrop);
  return op::CrossEntropy(b, nn::Linear(b, "classifier.1", x, sizes.classes), labels);
}

}  // namespace

Family EfficientNets() {
  return {"convolutional",
          {{"efficientnet_b0", "torchvision, 224x224", {.image = 224, .classes = 1000}, EfficientNetB0}}};
}

}  // namespace ebbtide::model::zoo
