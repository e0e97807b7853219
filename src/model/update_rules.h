// The optimizers: their state and the kernels of their update, as PyTorch runs them with default flags.
#pragma once

#include "base/result.h"
#include "model/backward.h"

namespace ebbtide::model {

// Names that --optimizer takes, in the order of the table; "none" is not among them.
std::vector<std::string> OptimizerNames();

// The name in the table of what TrainingArguments calls otherwise ("adamw_bnb_8bit"); other names as they are.
std::string OptimizerNamed(const std::string& name);

// Records the update of every parameter that has a gradient, and the state it needs. One kernel call
// serves all parameters at once on CUDA (torch's multi-tensor path), one parameter on the CPU.
Status RecordUpdate(Builder& builder, const ParameterGradients& gradients, const std::string& optimizer);

// The rest of a training step behind a forward pass that ends in `loss`; an error if the forward pass failed
// (Builder::Fail).
Result<TrainingGraph> FinishStep(Builder builder, TensorId loss, const ModelOptions& options);

}  // namespace ebbtide::model
