// The fields at a graph's head that decide something, as graph files of before them say them in `meta`.
#pragma once

#include "graph/graph.h"

namespace ebbtide {

struct GraphHead {
  Framework framework = Framework::kNone;
  bool loss_in_model = false;
  bool makes_state_early = false;
};

// What a file says that has none of the fields. For readers and writers of graph files alone.
GraphHead HeadByMeta(const TrainingGraph& graph);

// Whether every op is one of this framework's operators, by its schema. MXNet's and TensorFlow's runtimes take no
// other.
bool HasOpsOf(Framework framework, const TrainingGraph& graph);

}  // namespace ebbtide
