// Gives a symbol what its file does not hold: the shapes of data and labels, and what is minimised.
#pragma once

#include "model/model.h"
#include "model/mxnet/symbol.h"

namespace ebbtide::model::mxnet {

enum class Role : std::uint8_t { kParameter, kBuffer, kInput };

// Gives data and labels their shapes by the options, and variables those of their __shape__. A symbol that ends in no
// loss gets a SoftmaxOutput, except in inference. One role per node; those of operators mean nothing.
Result<std::vector<Role>> BindInputs(Symbol& symbol, const ModelOptions& options);

}  // namespace ebbtide::model::mxnet
