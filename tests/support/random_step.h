// Random training steps that look like real ones: layers with skips, in-place ops, ops of several outputs, workspaces,
// state that is there throughout, batch norm statistics, a backward pass and an update. Equal seeds give equal steps.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace ebbtide {

struct RandomStepOptions {
  int layers = 8;
  Bytes largest = 64;           // of a storage
  double in_place = 0.25;       // share of layers that change what they are given
  double not_repeatable = 0.1;  // share of layers that give other bits each time
  double early_update = 0.15;   // share of steps that update parameters within backward
};

TrainingGraph RandomStep(std::uint64_t seed, const RandomStepOptions& options = {});

}  // namespace ebbtide
