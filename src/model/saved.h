// What the autograd node of a recorded op keeps for its backward.
#pragma once

#include <string>
#include <vector>

#include "model/builder.h"

namespace ebbtide::model {

// The tensors behind a name of a gradient rule: outputs, arguments, or what Builder::SaveForBackward noted. Empty where
// the name stands for a number, or for nothing.
std::vector<TensorId> TensorsNamed(const Builder& builder, OpId op, const std::string& name);

// kOperands: only tensors that are there before the op runs. kResults: also some that it makes.
enum class Saves { kNothing, kOperands, kResults };
Saves SavesOf(const Builder& builder, OpId op);

}  // namespace ebbtide::model
