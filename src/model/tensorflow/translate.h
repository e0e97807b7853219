// A built-in model as a graph of TensorFlow: its forward pass, PyTorch's ops replaced by the operators that Keras uses.
#pragma once

#include "model/tensorflow/flat.h"

namespace ebbtide::model::tensorflow {

struct Translation {
  Flat flat;
  ValueId loss = kNone;  // kNone: inference
};

// `graph` is the model's step with the kernels of CUDA, of which the forward pass counts. Images have their channels
// first, as TensorFlow lays them out on a GPU. Errors name the op that has no counterpart.
Result<Translation> TranslateForward(const TrainingGraph& graph);

}  // namespace ebbtide::model::tensorflow
