// The order in which a rank of a pipeline works.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/layout.h"

namespace ebbtide::parallel {

// One pass of a microbatch through one of the rank's chunks.
struct PipelineAction {
  bool forward = true;
  std::int64_t chunk = 0;  // of the rank's own, in the order of the forward pass
  std::int64_t microbatch = 0;
  bool operator==(const PipelineAction&) const = default;
};

// torch's Schedule1F1B, and with several chunks its ScheduleInterleaved1F1B: forward passes until the pipeline is
// full, then one forward and one backward in turns, then what is left of backward.
std::vector<PipelineAction> PipelineOrder(const Layout& layout);

}  // namespace ebbtide::parallel
