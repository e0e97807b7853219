// Layers: operators together with the parameters they own, named as torch.nn names them.
#pragma once

#include "model/ops.h"

namespace ebbtide::model::nn {

struct Conv {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  std::int64_t dilation = 1;
  Dims kernel_shape = {};  // where height and width differ; else {kernel, kernel}
  Dims padding_shape = {};
};

TensorId Conv2d(Builder& b, const std::string& name, TensorId x, std::int64_t channels, const Conv& options);
TensorId ConvTranspose2d(Builder& b, const std::string& name, TensorId x, std::int64_t channels, const Conv& options);
TensorId BatchNorm2d(Builder& b, const std::string& name, TensorId x);
TensorId Linear(Builder& b, const std::string& name, TensorId x, std::int64_t features, bool bias = true);
TensorId LayerNorm(Builder& b, const std::string& name, TensorId x, bool bias = true);  // over the last axis
TensorId Embedding(Builder& b, const std::string& name, TensorId indices, std::int64_t rows, std::int64_t width);

// A weight that two layers share: make it once, use it in both.
TensorId EmbeddingWeight(Builder& b, const std::string& name, std::int64_t rows, std::int64_t width);
TensorId EmbeddingOf(Builder& b, const std::string& name, TensorId weight, TensorId indices);

}  // namespace ebbtide::model::nn
