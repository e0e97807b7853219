// A built-in model as a symbol: its forward pass, PyTorch's ops replaced by the operators that MXNet has for them.
#pragma once

#include "model/mxnet/bind.h"

namespace ebbtide::model::mxnet {

struct Translation {
  Symbol symbol;  // variables have their shapes
  std::vector<Role> roles;
};

// Errors name the op that MXNet has no operator for.
Result<Translation> TranslateForward(const TrainingGraph& graph);

}  // namespace ebbtide::model::mxnet
