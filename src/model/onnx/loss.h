// What a training minimises: an ONNX file ends at the model's outputs.
#pragma once

#include "model/onnx/lower.h"

namespace ebbtide::model::onnx {

// Cross-entropy of the first floating output against labels that are further inputs: [batch, classes];
// [batch, tokens, words]; or [batch, classes, height, width]. Outputs of the same shape behind it (an auxiliary
// classifier) count, too. An output of another shape: its mean.
// In inference there is no loss: the first output.
Result<TensorId> MakeLoss(Lowering& state);

// The model's outputs that are tensors, without repeats.
std::vector<TensorId> OutputTensors(const Lowering& state);

}  // namespace ebbtide::model::onnx
