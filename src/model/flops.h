// Matrix work of an op, counted as torch.utils.flop_counter does: a multiplication and an addition are two.
// Element-wise work is not counted; the cost model reads it from the bytes moved.
#pragma once

#include "graph/graph.h"

namespace ebbtide::model {

// 0 for kinds that do no matrix work. Expects the op's arguments to name its operands.
std::int64_t CountFlops(const TrainingGraph& graph, const Op& op);

}  // namespace ebbtide::model
