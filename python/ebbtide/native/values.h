// Graphs, plans and profiles as Python holds them: never changed, so that many may refer to one.
#pragma once

#include <memory>
#include <string>

#include "device/profile.h"
#include "graph/graph.h"
#include "plan/plan.h"

namespace ebbtide::core {

struct Graph {
  std::shared_ptr<const TrainingGraph> value;
};

struct Plan {
  std::shared_ptr<const plan::Plan> value;
};

struct Profile {
  DeviceProfile value;
};

}  // namespace ebbtide::core
