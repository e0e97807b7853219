// From a forward pass to forward and backward: records, behind the forward ops, the ops that PyTorch's autograd would
// run.
#pragma once

#include <string_view>

#include "model/builder.h"

namespace ebbtide::model {

// Gradients by parameter, in the order in which autograd completes them.
using ParameterGradients = std::vector<std::pair<TensorId, TensorId>>;

// Records backward from `loss`, a single element, through the forward ops from `begin` on. Nodes run as in autograd:
// latest forward op first. A gradient that arrives second is added to the first in place where nothing else refers to
// that, else into a new tensor. `before`: of earlier passes, to which those of this one are added. What the loss keeps
// alive by autograd's graph becomes an output of the builder's.
ParameterGradients RecordBackward(Builder& builder, TensorId loss, std::size_t begin = 0,
                                  const ParameterGradients& before = {});

// Whether formulas of the gradient table may nest this: element-wise kernels, products and functions that move no data.
// Any other kernel takes names only and yields tensors shaped like its targets.
bool IsFormulaFunction(std::string_view name);

// Gives every storage that ops made its kind: gradient, activation (made in forward or recomputed, read in backward),
// temporary. The parameters refer to their gradients until the end of the step. A release that a later use makes void
// is dropped.
void AssignStorageKinds(Builder& builder, const ParameterGradients& gradients);

}  // namespace ebbtide::model
