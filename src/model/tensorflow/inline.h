// From a graph with functions and loops to a flat one: calls are replaced by what they call, loops by their iterations,
// and every shape is found on the way.
#pragma once

#include "model/model.h"
#include "model/tensorflow/flat.h"

namespace ebbtide::model::tensorflow {

// What is to be computed.
struct Goal {
  std::vector<Port> results;  // of the file's graph
  std::vector<int> nodes;     // which must run, whatever they yield
};

// Placeholders get the options' sizes where theirs are open. Loops need a number of iterations that follows from the
// file. The file has to outlive the result.
Result<Flat> Inline(const File& file, const Goal& goal, const ModelOptions& options);

}  // namespace ebbtide::model::tensorflow
