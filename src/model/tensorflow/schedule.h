// The order in which TensorFlow's executor runs a flat graph on a GPU.
#pragma once

#include "model/tensorflow/flat.h"

namespace ebbtide::model::tensorflow {

// Kernels of a GPU only queue work, so the executor takes them for cheap and runs them all in one thread: a node that
// has all it needs goes to the end of a queue, first those that are ready from the start.
std::vector<int> ExecutionOrder(const Flat& flat);

}  // namespace ebbtide::model::tensorflow
