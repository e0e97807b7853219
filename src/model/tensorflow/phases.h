// Which part of a training step each op is, told by what depends on what: graphs do not say.
#pragma once

#include "model/tensorflow/flat.h"

namespace ebbtide::model::tensorflow {

// By variable: whether it is a parameter, state of the optimizer, or a buffer.
std::vector<StorageKind> KindsOfVariables(const Flat& flat);

// `nodes`: by op. What the results depend on is forward; what updates of parameters depend on beside that is backward.
// Phases do not go back: an op between two of backward is backward. Storages get their kinds.
void AssignPhases(const Flat& flat, const std::vector<int>& nodes, TrainingGraph& graph);

}  // namespace ebbtide::model::tensorflow
