// AlexNet (Krizhevsky 2014) and VGG (Simonyan and Zisserman 2014), as torchvision defines them.
#include "model/nn.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::zoo {

namespace {

TensorId ConvRelu(Builder& b, const std::string& name, TensorId x, std::int64_t channels, const nn::Conv& conv) {
  return op::ReluInPlace(b, nn::Conv2d(b, name, x, channels, conv));
}

TensorId LinearRelu(Builder& b, const std::string& name, TensorId x, std::int64_t features) {
  return op::ReluInPlace(b, nn::Linear(b, name, x, features));
}

TensorId AlexNet(Builder& b, const Sizes& sizes) {
  const op::PoolOptions pool{.kernel = {3, 3}, .stride = {2, 2}};
  auto [x, labels] = ImageInput(b, sizes);
  {
    auto layer = b.Enter("features");
    x = op::MaxPool2d(b, ConvRelu(b, "0", x, 64, {.kernel = 11, .stride = 4, .padding = 2}), pool);
    x = op::MaxPool2d(b, ConvRelu(b, "3", x, 192, {.kernel = 5, .padding = 2}), pool);
    x = ConvRelu(b, "6", x, 384, {.kernel = 3, .padding = 1});
    x = ConvRelu(b, "8", x, 256, {.kernel = 3, .padding = 1});
    x = op::MaxPool2d(b, ConvRelu(b, "10", x, 256, {.kernel = 3, .padding = 1}), pool);
  }
  x = op::Flatten(b, op::AdaptiveAvgPool2d(b, x, 6, 6), 1);
  auto layer = b.Enter("classifier");
  x = LinearRelu(b, "1", op::Dropout(b, x, 0.5), 4096);
  x = LinearRelu(b, "4", op::Dropout(b, x, 0.5), 4096);
  return op::CrossEntropy(b, nn::Linear(b, "6", x, sizes.classes), labels);
}

// `convolutions[i]` of 3x3 at level i, each level closed by a max-pool.
TensorId Vgg(Builder& b, const Sizes& sizes, const std::vector<int>& convolutions) {
  constexpr std::int64_t kChannels[] = {64, 128, 256, 512, 512};
  auto [x, labels] = ImageInput(b, sizes);
  {
    auto layer = b.Enter("features");
    int index = 0;
    for (int level = 0; level < 5; ++level) {
      for (int i = 0; i < convolutions[level]; ++i, index += 2) {
        x = ConvRelu(b, std::to_string(index), x, kChannels[level], {.kernel = 3, .padding = 1});
      }
      x = op::MaxPool2d(b, x, {.kernel = {2, 2}});
      ++index;
    }
  }
  x = op::Flatten(b, op::AdaptiveAvgPool2d(b, x, 7, 7), 1);
  auto layer = b.Enter("classifier");
  x = op::Dropout(b, LinearRelu(b, "0", x, 4096), 0.5);
  x = op::Dropout(b, LinearRelu(b, "3", x, 4096), 0.5);
  return op::CrossEntropy(b, nn::Linear(b, "6", x, sizes.classes), labels);
}

Member VggMember(const std::string& name, std::vector<int> convolutions) {
  return {name, "torchvision, 224x224", {.image = 224, .classes = 1000}, [=](Builder& b, const Sizes& sizes) {
            return Vgg(b, sizes, convolutions);
          }};
}

}  // namespace

Family AlexNetAndVgg() {
  return {"convolutional",
          {{"alexnet", "torchvision, 224x224", {.image = 224, .classes = 1000}, AlexNet},
           VggMember("vgg11", {1, 1, 2, 2, 2}),
           VggMember("vgg16", {2, 2, 3, 3, 3}),
           VggMember("vgg19", {2, 2, 4, 4, 4})}};
}

}  // namespace ebbtide::model::zoo
