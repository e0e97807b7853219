// The blocks op by op, as torchvision.ops writes them.
#include "model/zoo/torchvision_blocks.h"

namespace ebbtide::model::zoo {

TensorId ActivateInPlace(Builder& b, TensorId x, Activation activation) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return op::ReluInPlace(b, x);
    case Activation::kRelu6:
      return op::UnaryInPlaceKeepingInput(b, "hardtanh_", x, {{"min_val", 0.0}, {"max_val", 6.0}});
    case Activation::kHardswish: return op::UnaryInPlaceKeepingInput(b, "hardswish_", x);
    case Activation::kSilu: return op::UnaryInPlaceKeepingInput(b, "silu_", x);
  }
  return x;
}

TensorId ConvNormActivation(Builder& b, const std::string& name, TensorId x, std::int64_t channels, nn::Conv conv,
                            Activation activation) {
  auto layer = b.Enter(name);
  conv.padding = (conv.kernel - 1) / 2;
  conv.bias = false;
  return ActivateInPlace(b, nn::BatchNorm2d(b, "1", nn::Conv2d(b, "0", x, channels, conv)), activation);
}

TensorId SqueezeExcitation(Builder& b, const std::string& name, TensorId x, std::int64_t squeezed,
                           const std::string& gate, Activation inner) {
  auto layer = b.Enter(name);
  TensorId means = op::AdaptiveAvgPool2d(b, x, 1, 1);
  TensorId hidden = nn::Conv2d(b, "fc1", means, squeezed, {.kernel = 1});
  hidden = inner == Activation::kRelu ? op::Relu(b, hidden) : ActivateInPlace(b, hidden, inner);
  TensorId outer = nn::Conv2d(b, "fc2", hidden, b.dim(x, 1), {.kernel = 1});
  return op::Mul(b, op::Unary(b, gate, outer), x);
}

}  // namespace ebbtide::model::zoo
