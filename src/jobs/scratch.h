// The scratch memory that an estimate counts for each op of a step.
#pragma once

#include <optional>
#include <vector>

#include "base/units.h"
#include "device/profile.h"
#include "graph/graph.h"

namespace ebbtide::jobs {

// The numbers of the ops whose scratch memory no rule knows, measured or not.
std::vector<std::size_t> WithoutScratchRule(const TrainingGraph& graph);

// By op: the most that it takes beyond its results while it runs, in blocks of PyTorch's allocator; none: not counted.
// The graph passes Check.
std::vector<std::optional<Bytes>> ScratchByOp(const TrainingGraph& graph, const DeviceProfile& gpu);

}  // namespace ebbtide::jobs
