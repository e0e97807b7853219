// RegNet (Radosavovic et al. 2020), as torchvision defines it; the Y variants squeeze and excite.
#include "model/zoo/torchvision_blocks.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::zoo {

namespace {

struct Design {
  std::vector<int> depths;
  std::vector<std::int64_t> widths;
  std::int64_t group_width;
  bool squeezes;
};

TensorId Block(Builder& b, TensorId x, const Design& design, std::int64_t width, std::int64_t stride) {
  std::int64_t in = b.dim(x, 1);
  TensorId shortcut = x;
  if (in != width || stride != 1) {
    shortcut = ConvNormActivation(b, "proj", x, width, {.kernel = 1, .stride = stride}, Activation::kNone);
  }
  {
    auto layer = b.Enter("f");
    nn::Conv grouped{.kernel = 3, .stride = stride, .groups = width / design.group_width};
    x = ConvNormActivation(b, "a", x, width, {.kernel = 1}, Activation::kRelu);
    x = ConvNormActivation(b, "b", x, width, grouped, Activation::kRelu);
    if (design.squeezes) x = SqueezeExcitation(b, "se", x, in / 4, "sigmoid");
    x = ConvNormActivation(b, "c", x, width, {.kernel = 1}, Activation::kNone);
  }
  return op::ReluInPlace(b, op::Add(b, shortcut, x));
}

TensorId RegNet(Builder& b, const Sizes& sizes, const Design& design) {
  auto [x, labels] = ImageInput(b, sizes);
  x = ConvNormActivation(b, "stem", x, 32, {.kernel = 3, .stride = 2}, Activation::kRelu);
  for (std::size_t stage = 0; stage < design.depths.size(); ++stage) {
    std::string name = "block" + std::to_string(stage + 1);
    auto layer = b.Enter("trunk_output." + name);
    for (int i = 0; i < design.depths[stage]; ++i) {
      auto block = b.EnterBlock(name + "-" + std::to_string(i));
      x = Block(b, x, design, design.widths[stage], i == 0 ? 2 : 1);
    }
  }
  x = op::Flatten(b, op::AdaptiveAvgPool2d(b, x, 1, 1), 1);
  return op::CrossEntropy(b, nn::Linear(b, "fc", x, sizes.classes), labels);
}

Member RegNetMember(const std::string& name, const Design& design) {
  return {name, "torchvision, 224x224", {.image = 224, .classes = 1000}, [=](Builder& b, const Sizes& sizes) {
            return RegNet(b, sizes, design);
          }};
}

}  // namespace

Family RegNets() {
  return {"convolutional",
          {RegNetMember("regnet_x_400mf", {{1, 2, 7, 12}, {32, 64, 160, 400}, 16, false}),
           RegNetMember("regnet_y_400mf", {{1, 3, 6, 6}, {48, 104, 208, 440}, 8, true})}};
}

}  // namespace ebbtide::model::zoo
