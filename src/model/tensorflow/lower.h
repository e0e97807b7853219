// From a flat graph to a TrainingGraph: one op per kernel in the executor's order, results in the buffers that they
// get.
#pragma once

#include "model/model.h"
#include "model/tensorflow/flat.h"

namespace ebbtide::model::tensorflow {

// Op::schema is "tensorflow::" and the operator's name. A result that takes over an input's buffer is a tensor of the
// same storage, and that input is mutated. Updates of parameters run as soon as their gradients are there; those behind
// the last other op of the backward pass are the update, by phase.
Result<TrainingGraph> LowerFlat(const Flat& flat, const ModelOptions& options);

}  // namespace ebbtide::model::tensorflow
