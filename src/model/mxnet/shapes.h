// Shapes of a symbol: from data to outputs, filling in those of weights on the way, as MXNet's inference does.
#pragma once

#include "model/mxnet/operators.h"

namespace ebbtide::model::mxnet {

// Data and labels have shapes (bind.h). A size that `_zeros` leaves open (an initial state) is the batch.
Status InferShapes(Symbol& symbol, std::int64_t batch);

}  // namespace ebbtide::model::mxnet
