// Triton kernels that stand in for several of PyTorch's: Liger's (0.3 to 0.6), and fms-acceleration's, which are
// unsloth's. They save less, and write gradients over what they read.
#pragma once

#include "model/builder.h"

namespace ebbtide::model::hf {

// x / rms(x) * weight, saving x and one number per row. fms-acceleration's has no gradient of the weight.
TensorId FusedRmsNorm(Builder& builder, const std::string& name, TensorId x);

// Turns queries or keys where they lie.
TensorId FusedRotary(Builder& builder, TensorId x, TensorId cosine, TensorId sine);

// silu(gate) * up in one kernel (Liger).
TensorId FusedGate(Builder& builder, TensorId gate, TensorId up);

// Cross-entropy of scores [rows, words] in one kernel, whose gradient takes the scores' place.
TensorId FusedCrossEntropy(Builder& builder, TensorId scores, TensorId labels);

// Scores and cross-entropy of x [rows, width] at once. Liger's computes the gradients beforehand, some rows at a time;
// cut cross-entropy keeps a number per row and no scores.
TensorId LinearCrossEntropy(Builder& builder, LossKernel kernel, TensorId x, TensorId weight, TensorId labels);

}  // namespace ebbtide::model::hf
