// Residual networks (He et al. 2015), as torchvision defines them.
#include "model/nn.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::zoo {

namespace {

TensorId ConvBatchNorm(Builder& b, const std::string& suffix, TensorId x, std::int64_t channels, const nn::Conv& conv) {
  x = nn::Conv2d(b, "conv" + suffix, x, channels, conv);
  return nn::BatchNorm2d(b, "bn" + suffix, x);
}

TensorId Shortcut(Builder& b, TensorId x, std::int64_t channels, std::int64_t stride) {
  if (stride == 1 && b.dim(x, 1) == channels) return x;
  auto layer = b.Enter("downsample");
  return nn::BatchNorm2d(b, "1", nn::Conv2d(b, "0", x, channels, {.kernel = 1, .stride = stride, .bias = false}));
}

TensorId BasicBlock(Builder& b, TensorId x, std::int64_t width, std::int64_t stride) {
  TensorId out = ConvBatchNorm(b, "1", x, width, {.kernel = 3, .stride = stride, .padding = 1, .bias = false});
  out = op::ReluInPlace(b, out);
  out = ConvBatchNorm(b, "2", out, width, {.kernel = 3, .padding = 1, .bias = false});
  out = op::BinaryInPlace(b, "add_", out, Shortcut(b, x, width, stride));
  return op::ReluInPlace(b, out);
}

TensorId Bottleneck(Builder& b, TensorId x, std::int64_t width, std::int64_t stride) {
  TensorId out = op::ReluInPlace(b, ConvBatchNorm(b, "1", x, width, {.kernel = 1, .bias = false}));
  out = ConvBatchNorm(b, "2", out, width, {.kernel = 3, .stride = stride, .padding = 1, .bias = false});
  out = op::ReluInPlace(b, out);
  out = ConvBatchNorm(b, "3", out, 4 * width, {.kernel = 1, .bias = false});
  out = op::BinaryInPlace(b, "add_", out, Shortcut(b, x, 4 * width, stride));
  return op::ReluInPlace(b, out);
}

using Block = TensorId (*)(Builder&, TensorId, std::int64_t width, std::int64_t stride);

TensorId ResNet(Builder& b, const Sizes& sizes, Block block, const std::vector<int>& depths) {
  auto [x, labels] = ImageInput(b, sizes);
  x = op::ReluInPlace(b, ConvBatchNorm(b, "1", x, 64, {.kernel = 7, .stride = 2, .padding = 3, .bias = false}));
  x = op::MaxPool2d(b, x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  std::int64_t width = 64;
  for (int stage = 0; stage < 4; ++stage, width *= 2) {
    auto layer = b.Enter("layer" + std::to_string(stage + 1));
    for (int i = 0; i < depths[stage]; ++i) {
      auto block_layer = b.EnterBlock(std::to_string(i));
      x = block(b, x, width, i == 0 && stage > 0 ? 2 : 1);
    }
  }
  x = op::Flatten(b, op::AdaptiveAvgPool2d(b, x, 1, 1), 1);
  return op::CrossEntropy(b, nn::Linear(b, "fc", x, sizes.classes), labels);
}

Member ResNetMember(const std::string& name, Block block, std::vector<int> depths) {
  return {name, "torchvision, 224x224", {.image = 224, .classes = 1000}, [=](Builder& b, const Sizes& sizes) {
            return ResNet(b, sizes, block, depths);
          }};
}

}  // namespace

Family ResNets() {
  return {"convolutional",
          {ResNetMember("resnet18", BasicBlock, {2, 2, 2, 2}), ResNetMember("resnet34", BasicBlock, {3, 4, 6, 3}),
           ResNetMember("resnet50", Bottleneck, {3, 4, 6, 3}), ResNetMember("resnet101", Bottleneck, {3, 4, 23, 3}),
           ResNetMember("resnet152", Bottleneck, {3, 8, 36, 3})}};
}

}  // namespace ebbtide::model::zoo
