// What a rank holds of what is divided along the first axis.
#pragma once

#include "graph/graph.h"
#include "parallel/layout.h"
#include "parallel/rewriter.h"
#include "parallel/units.h"

namespace ebbtide::parallel {

// The first axis in `ranks` parts, the larger ones: torch pads the others to them. Tensors of no axis stay whole.
Dims ShardOf(const Dims& shape, std::int64_t ranks);

// Every tensor that updates alone touch, and parameters as updates see them, become shards; so do their storages. They
// get the types that the layout has for shards. Gradients are left as they are: they have a whole form too.
void ShardUpdate(Rewriter& graph, const Layout& layout, const Units& units);

// The type of a tensor as a shard of something that is trained or not.
DType ShardType(DType whole, const Layout& layout, bool trained);

}  // namespace ebbtide::parallel
