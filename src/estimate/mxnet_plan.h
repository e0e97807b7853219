// MXNet's static memory plan: which results of a symbolic executor lie in one block, and how large the blocks are.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace ebbtide::estimate {

struct MxnetPlanOptions {
  std::int64_t match_range =
      16;  // NNVM_EXEC_MATCH_RANGE: a block may serve a result up to so many times larger or smaller
};

struct MxnetPlan {
  static constexpr int kExternal = -1;  // arrays of their own: arguments, their gradients, the optimizer's

  std::vector<Bytes> pools;  // sizes of the blocks
  std::vector<int> pool_of;  // by storage: its block, or kExternal
  Bytes total() const;       // what Executor.debug_str() calls allocated
};

// The graph passes Check and is MXNet's.
MxnetPlan PlanMxnet(const TrainingGraph& graph, const MxnetPlanOptions& options = {});

}  // namespace ebbtide::estimate
