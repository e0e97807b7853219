// The gradient of a flat graph and the update of its variables, made of the operators that TensorFlow registers for it.
#pragma once

#include <string_view>

#include "model/model.h"
#include "model/tensorflow/flat_builder.h"

namespace ebbtide::model::tensorflow {

// Appends the gradient of `loss`, one element, and the update of every trainable variable that it depends on. Gradients
// that meet are one AddN. Rows of a variable that are looked up have rows of a gradient.
Status AddTraining(Flat& flat, ValueId loss, const std::string& optimizer);

// Formulas of element-wise and image operators; exposed for tests. Empty: the operator is none of these.
struct GradientFormula {
  std::string_view op;
  std::string_view first, second, third;  // gradients of the first inputs; empty: none
};
const std::vector<GradientFormula>& GradientFormulas();

}  // namespace ebbtide::model::tensorflow
