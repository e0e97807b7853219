// Xception (Chollet 2017), as timm defines it: depthwise separable convolutions with a way around each block.
#include "model/nn.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::zoo {

namespace {

struct BlockDesign {
  std::int64_t channels;
  int layers;
  std::int64_t stride;
  bool starts_with_relu = true;
  bool grows_first = true;  // the first layer has the block's channels, else the last
};

TensorId Separable(Builder& b, const std::string& name, TensorId x, std::int64_t channels) {
  auto layer = b.Enter(name);
  x = nn::Conv2d(b, "conv1", x, b.dim(x, 1), {.kernel = 3, .padding = 1, .groups = b.dim(x, 1), .bias = false});
  return nn::Conv2d(b, "pointwise", x, channels, {.kernel = 1, .bias = false});
}

TensorId Block(Builder& b, TensorId x, const BlockDesign& design) {
  const std::int64_t in = b.dim(x, 1);
  TensorId out = x;
  {
    auto layer = b.Enter("rep");
    int index = design.starts_with_relu ? 0 : -1;
    for (int i = 0; i < design.layers; ++i) {
      if (i > 0) {
        out = op::ReluInPlace(b, out);
      } else if (design.starts_with_relu) {
        out = op::Relu(b, out);
      }
      const bool wide = design.grows_first || i + 1 == design.layers;
      out = Separable(b, std::to_string(index + 1), out, wide ? design.channels : in);
      out = nn::BatchNorm2d(b, std::to_string(index + 2), out);
      index += 3;
    }
    if (design.stride != 1) {
      out = op::MaxPool2d(b, out, {.kernel = {3, 3}, .stride = {design.stride, design.stride}, .padding = {1, 1}});
    }
  }
  TensorId around = x;
  if (in != design.channels || design.stride != 1) {
    around = nn::Conv2d(b, "skip", x, design.channels, {.kernel = 1, .stride = design.stride, .bias = false});
    around = nn::BatchNorm2d(b, "skipbn", around);
  }
  return op::BinaryInPlace(b, "add_", out, around);
}

TensorId Xception(Builder& b, const Sizes& sizes) {
  auto [x, labels] = ImageInput(b, sizes);
  x = nn::Conv2d(b, "conv1", x, 32, {.kernel = 3, .stride = 2, .bias = false});
  x = op::ReluInPlace(b, nn::BatchNorm2d(b, "bn1", x));
  x = nn::Conv2d(b, "conv2", x, 64, {.kernel = 3, .bias = false});
  x = op::ReluInPlace(b, nn::BatchNorm2d(b, "bn2", x));
  std::vector<BlockDesign> designs = {{128, 2, 2, false}, {256, 2, 2}, {728, 2, 2}};
  designs.insert(designs.end(), 8, {728, 3, 1});
  designs.push_back({1024, 2, 2, true, false});
  for (std::size_t i = 0; i < designs.size(); ++i) {
    auto layer = b.EnterBlock("block" + std::to_string(i + 1));
    x = Block(b, x, designs[i]);
  }
  x = op::ReluInPlace(b, nn::BatchNorm2d(b, "bn3", Separable(b, "conv3", x, 1536)));
  x = op::ReluInPlace(b, nn::BatchNorm2d(b, "bn4", Separable(b, "conv4", x, 2048)));
  x = op::Flatten(b, op::AdaptiveAvgPool2d(b, x, 1, 1), 1);
  return op::CrossEntropy(b, nn::Linear(b, "fc", x, sizes.classes), labels);
}

}  // namespace

Family Xceptions() {
  return {"convolutional", {{"xception", "timm, 299x299", {.image = 299, .classes = 1000}, Xception}}};
}

}  // namespace ebbtide::model::zoo
