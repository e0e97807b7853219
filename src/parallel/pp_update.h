// The update as one stage of a pipeline makes it.
#pragma once

#include "base/id_set.h"
#include "graph/graph.h"
#include "parallel/rewriter.h"

namespace ebbtide::parallel {

// Copies the ops of the update behind all others, without what is about parameters that no op of this stage touches:
// `touched` has the storages of the old graph that they do. Inputs and buffers of other stages are left out too.
void CopyStageUpdate(Rewriter& out, const IdSet<StorageId>& touched);

}  // namespace ebbtide::parallel
