// A graph that only infers, as one that trains: what the file does not say.
#pragma once

#include "model/model.h"
#include "model/tensorflow/flat.h"

namespace ebbtide::model::tensorflow {

// Whether the graph has a gradient, or changes a variable that is trained.
bool Trains(const Flat& flat);

// A frozen graph's weights are constants: floating ones, at places where operators take weights, become variables, and
// running statistics variables that are not trained.
void FindWeights(Flat& flat);

// Batch norms compute with the statistics of the batch. The loss is the cross-entropy of the first floating result,
// without the softmax that it may end in, against labels; of a result of fewer than two axes, its mean. Then the
// gradient and the update.
Status AddStep(Flat& flat, const ModelOptions& options);
// The same for a graph that has its loss already: gradient and update alone.
Status AddStepBehind(Flat& flat, ValueId loss, const ModelOptions& options);
// Drops nodes and variables that neither results nor changes of variables depend on.
void DropUnused(Flat& flat);

}  // namespace ebbtide::model::tensorflow
