// ConvNeXt (Liu et al. 2022), as torchvision defines it: depthwise 7x7, layer norm and a two-layer perceptron over the
// channels, layer scale and stochastic depth. Layer norm works with channels last, by views.
#include "model/nn.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::zoo {

namespace {

struct Design {
  std::vector<int> depths;
  std::int64_t width;  // of the first stage; each further stage doubles it
  double drop;         // stochastic depth of the last block; rises from 0
};

TensorId LayerNorm2d(Builder& b, const std::string& name, TensorId x) {
  return op::Permute(b, nn::LayerNorm(b, name, op::Permute(b, x, {0, 2, 3, 1})), {0, 3, 1, 2});
}

TensorId Block(Builder& b, TensorId x, double drop) {
  std::int64_t width = b.dim(x, 1);
  TensorId layer_scale = b.Parameter("layer_scale", {width, 1, 1});
  TensorId out = x;
  {
    auto layer = b.Enter("block");
    out = nn::Conv2d(b, "0", out, width, {.kernel = 7, .padding = 3, .groups = width});
    out = nn::LayerNorm(b, "2", op::Permute(b, out, {0, 2, 3, 1}));
    out = nn::Linear(b, "5", op::Gelu(b, nn::Linear(b, "3", out, 4 * width)), width);
    out = op::Permute(b, out, {0, 3, 1, 2});
  }
  out = op::StochasticDepth(b, op::Mul(b, layer_scale, out), drop);
  return op::BinaryInPlace(b, "add_", out, x);
}

TensorId ConvNext(Builder& b, const Sizes& sizes, const Design& design) {
  auto [x, labels] = ImageInput(b, sizes);
  {
    auto features = b.Enter("features");
    x = nn::Conv2d(b, "0.0", x, design.width, {.kernel = 4, .stride = 4});
    x = LayerNorm2d(b, "0.1", x);
    int blocks = 0, done = 0;
    for (int depth : design.depths) blocks += depth;
    for (std::size_t stage = 0; stage < design.depths.size(); ++stage) {
      for (int i = 0; i < design.depths[stage]; ++i, ++done) {
        auto layer = b.EnterBlock(std::to_string(2 * stage + 1) + "." + std::to_string(i));
        x = Block(b, x, design.drop * done / (blocks - 1));
      }
      if (stage + 1 == design.depths.size()) break;
      auto downsample = b.Enter(std::to_string(2 * stage + 2));
      x = nn::Conv2d(b, "1", LayerNorm2d(b, "0", x), 2 * b.dim(x, 1), {.kernel = 2, .stride = 2});
    }
  }
  auto layer = b.Enter("classifier");
  x = op::Flatten(b, LayerNorm2d(b, "0", op::AdaptiveAvgPool2d(b, x, 1, 1)), 1);
  return op::CrossEntropy(b, nn::Linear(b, "2", x, sizes.classes), labels);
}

Member ConvNextMember(const std::string& name, const Design& design) {
  return {name, "torchvision, 224x224", {.image = 224, .classes = 1000}, [=](Builder& b, const Sizes& sizes) {
            return ConvNext(b, sizes, design);
          }};
}

}  // namespace

Family ConvNexts() {
  return {"convolutional",
          {ConvNextMember("convnext_tiny", {{3, 3, 9, 3}, 96, 0.1}),
           ConvNextMember("convnext_base", {{3, 3, 27, 3}, 128, 0.5})}};
}

}  // namespace ebbtide::model::zoo
