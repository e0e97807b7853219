// Densely connected networks (Huang et al. 2016), as torchvision defines them, without its memory-efficient option.
#include "model/nn.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::zoo {

namespace {

constexpr std::int64_t kGrowth = 32, kBottleneck = 4 * kGrowth;

TensorId NormRelu(Builder& b, const std::string& name, TensorId x) {
  return op::ReluInPlace(b, nn::BatchNorm2d(b, name, x));
}

// Every layer reads, and copies together, what all layers of the block before it made.
TensorId DenseBlock(Builder& b, TensorId x, int layers) {
  std::vector<TensorId> features = {x};
  for (int i = 1; i <= layers; ++i) {
    auto layer = b.EnterBlock("denselayer" + std::to_string(i));
    TensorId joined = NormRelu(b, "norm1", op::Cat(b, features, 1));
    TensorId narrow = nn::Conv2d(b, "conv1", joined, kBottleneck, {.kernel = 1, .bias = false});
    features.push_back(
        nn::Conv2d(b, "conv2", NormRelu(b, "norm2", narrow), kGrowth, {.kernel = 3, .padding = 1, .bias = false}));
  }
  return op::Cat(b, features, 1);
}

TensorId Transition(Builder& b, TensorId x) {
  TensorId narrow = nn::Conv2d(b, "conv", NormRelu(b, "norm", x), b.dim(x, 1) / 2, {.kernel = 1, .bias = false});
  return op::AvgPool2d(b, narrow, {.kernel = {2, 2}});
}

TensorId DenseNet(Builder& b, const Sizes& sizes, const std::vector<int>& blocks) {
  auto [x, labels] = ImageInput(b, sizes);
  {
    auto features = b.Enter("features");
    x = NormRelu(b, "norm0", nn::Conv2d(b, "conv0", x, 64, {.kernel = 7, .stride = 2, .padding = 3, .bias = false}));
    x = op::MaxPool2d(b, x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      std::string number = std::to_string(i + 1);
      {
        auto block = b.Enter("denseblock" + number);
        x = DenseBlock(b, x, blocks[i]);
      }
      if (i + 1 == blocks.size()) break;
      auto transition = b.Enter("transition" + number);
      x = Transition(b, x);
    }
    x = NormRelu(b, "norm5", x);
  }
  x = op::Flatten(b, op::AdaptiveAvgPool2d(b, x, 1, 1), 1);
  return op::CrossEntropy(b, nn::Linear(b, "classifier", x, sizes.classes), labels);
}

Member DenseNetMember(const std::string& name, std::vector<int> blocks) {
  return {name, "torchvision, 224x224", {.image = 224, .classes = 1000}, [=](Builder& b, const Sizes& sizes) {
            return DenseNet(b, sizes, blocks);
          }};
}

}  // namespace

Family DenseNets() {
  return {"convolutional",
          {DenseNetMember("densenet121", {6, 12, 24, 16}), DenseNetMember("densenet169", {6, 12, 32, 32})}};
}

}  // namespace ebbtide::model::zoo
