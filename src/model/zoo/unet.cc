// U-Net for segmentation (Ronneberger et al. 2015): five levels of padded convolutions with batch norm, a class per
// pixel.
#include "model/nn.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::zoo {

namespace {

constexpr std::int64_t kChannels[] = {64, 128, 256, 512, 1024};
constexpr int kLevels = 5;

TensorId DoubleBlock(Builder& b, TensorId x, std::int64_t channels) {
  for (int i = 0; i < 2; ++i) {
    x = nn::Conv2d(b, std::to_string(3 * i), x, channels, {.kernel = 3, .padding = 1, .bias = false});
    x = op::ReluInPlace(b, nn::BatchNorm2d(b, std::to_string(3 * i + 1), x));
  }
  return x;
}

TensorId UNet(Builder& b, const Sizes& sizes) {
  if (sizes.image % (1 << (kLevels - 1)) != 0) {
    b.Fail(fmt::format("--image-size {}: expected a multiple of {}, as it is halved {} times", sizes.image,
                       1 << (kLevels - 1), kLevels - 1));
  }
  TensorId x = b.Input("images", {sizes.batch, 3, sizes.image, sizes.image});
  TensorId labels = b.Label("labels", {sizes.batch, sizes.image, sizes.image});
  std::vector<TensorId> skips;
  for (int level = 0; level < kLevels; ++level) {
    if (level > 0) x = op::MaxPool2d(b, x, {.kernel = {2, 2}});
    auto layer = b.EnterBlock("down." + std::to_string(level));
    x = DoubleBlock(b, x, kChannels[level]);
    skips.push_back(x);
  }
  for (int i = 0; i < kLevels - 1; ++i) {
    int level = kLevels - 2 - i;
    std::string number = std::to_string(i);
    x = nn::ConvTranspose2d(b, "enlarge." + number, x, kChannels[level], {.kernel = 2, .stride = 2});
    x = op::Cat(b, {skips[level], x}, 1);
    auto layer = b.EnterBlock("up." + number);
    x = DoubleBlock(b, x, kChannels[level]);
  }
  return op::CrossEntropy(b, nn::Conv2d(b, "output", x, sizes.classes, {.kernel = 1}), labels);
}

}  // namespace

Family UNets() {
  return {
      "convolutional",
      {{"unet", "5 levels of 64 to 1024 channels, 512x512, 2 classes per pixel", {.image = 512, .classes = 2}, UNet}}};
}

}  // namespace ebbtide::model::zoo
