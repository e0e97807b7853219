// From a symbol and its gradient to a TrainingGraph: one op per node, in the order of MXNet's executor.
#pragma once

#include "model/model.h"
#include "model/mxnet/bind.h"

namespace ebbtide::model::mxnet {

// The symbol has its shapes. Op::schema is "mxnet::" and the operator's name in MXNet: estimate/mxnet_plan.h goes by
// it.
Result<TrainingGraph> LowerSymbol(Symbol symbol, const std::vector<Role>& roles, const ModelOptions& options);

}  // namespace ebbtide::model::mxnet
