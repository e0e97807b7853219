// Valid graphs of every shape the format allows, for property tests: views, in-place ops, aliases, ops without
// outputs, references that outlive their last use, all kinds of arguments. Equal seeds give equal graphs.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace ebbtide {

struct RandomGraphOptions {
  int ops = 20;
  int persistent = 4;        // parameters, buffers, states and inputs
  double in_place = 0.15;    // share of ops that change an input
  double view = 0.2;         // share of outputs that are views of an input
  double held_longer = 0.2;  // share of storages with a released_after
  bool odd_texts = true;     // names with quotes, line ends and other scripts
  bool arguments = true;
};

TrainingGraph RandomGraph(std::uint64_t seed, const RandomGraphOptions& options = {});

}  // namespace ebbtide
