// What Grappler rewrites before a graph runs, as far as memory feels it.
#pragma once

#include "model/tensorflow/flat.h"

namespace ebbtide::model::tensorflow {

// A sum that only another sum of the same function and iteration reads becomes part of it. So all that is added is held
// until the last of it is there.
void MergeSums(Flat& flat);

}  // namespace ebbtide::model::tensorflow
