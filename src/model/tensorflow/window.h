// The window of a convolution or pooling over images: where it lies and how many there are.
#pragma once

#include "model/tensorflow/graph_def.h"

namespace ebbtide::model::tensorflow {

struct Window {
  std::size_t channel = 3, row = 1;  // axes; columns come behind rows
  Dims kernel, stride, dilation;     // two each
  Dims before;                       // padding at the beginning
  Dims out;
};

// By the attributes strides, dilations, padding, explicit_paddings and data_format of an image of 4 axes.
Result<Window> WindowOf(const Attributes& attributes, const Dims& image, const Dims& kernel);

}  // namespace ebbtide::model::tensorflow
