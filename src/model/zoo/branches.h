// Inception blocks: branches of convolutions side by side, joined along the channels.
#pragma once

#include <string>
#include <vector>

#include "model/nn.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::zoo {

// Convolution without bias ("conv"), batch norm ("bn"), ReLU in place.
struct ConvStep {
  std::string name;
  std::int64_t channels;
  std::int64_t height, width;  // of the kernel
  std::int64_t stride = 1;
  bool padded = true;  // the result is as large as the input, over the stride
};

enum class BranchPool { kNone, kAverage, kMaximum };  // 3x3; kAverage keeps the size, kMaximum halves it

struct Branch {
  std::vector<ConvStep> steps = {};
  std::vector<ConvStep> forks = {};     // behind the steps, side by side, and joined first
  BranchPool pool = BranchPool::kNone;  // before the steps
};

TensorId ConvNormRelu(Builder& b, TensorId x, const ConvStep& step);
TensorId Chain(Builder& b, TensorId x, const std::vector<ConvStep>& steps);
TensorId JoinBranches(Builder& b, const std::string& name, TensorId x, const std::vector<Branch>& branches);

TensorId InceptionV4(Builder& b, const Sizes& sizes);

}  // namespace ebbtide::model::zoo
