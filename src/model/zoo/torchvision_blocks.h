// Blocks that several of torchvision's models share (torchvision.ops), with their names and what runs in place.
#pragma once

#include <string>

#include "model/nn.h"

namespace ebbtide::model::zoo {

enum class Activation { kNone, kRelu, kRelu6, kHardswish, kSilu };

TensorId ActivateInPlace(Builder& b, TensorId x, Activation activation);

// Conv2dNormActivation: convolution without bias ("0"), batch norm ("1"), activation. The padding keeps the size.
TensorId ConvNormActivation(Builder& b, const std::string& name, TensorId x, std::int64_t channels, nn::Conv conv,
                            Activation activation);

// SqueezeExcitation: every channel is scaled by what a small network makes of all channels' means. `gate` is the op
// that ends it: "sigmoid" or "hardsigmoid"; `inner` runs in place, but for a ReLU.
TensorId SqueezeExcitation(Builder& b, const std::string& name, TensorId x, std::int64_t squeezed,
                           const std::string& gate, Activation inner = Activation::kRelu);

}  // namespace ebbtide::model::zoo
