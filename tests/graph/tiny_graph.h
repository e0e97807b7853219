// The example of docs/graph-format.md, as a value: a layer of four neurons, its loss, its gradient, plain SGD.
#pragma once

#include <string>

#include "graph/graph.h"

namespace ebbtide {

TrainingGraph TinyGraph();

// The example as it stands in the documentation.
std::string TinyGraphText();

}  // namespace ebbtide
