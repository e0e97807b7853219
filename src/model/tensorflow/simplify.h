// What Grappler rewrites before a graph runs, as far as memory feels it.
#pragma once

#include "model/tensorflow/flat.h"

namespace ebbtide::model::tensorflow {

// A sum that only another sum reads becomes part of it, within one function and iteration: all that is added is there
// until the end.
void MergeSums(Flat& flat);

}  // namespace ebbtide::model::tensorflow
