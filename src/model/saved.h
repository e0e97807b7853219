// What the autograd node of a recorded op keeps for its backward.
#pragma once

#include <string>
#include <vector>

#include "model/builder.h"

namespace ebbtide::model {

// The tensors behind a name of a gradient rule: outputs, arguments, or what the op noted. None: a number, or absent.
std::vector<TensorId> TensorsNamed(const Builder& builder, OpId op, const std::string& name);

// kOperands: tensors that are there before the op runs; kResults: what it makes, perhaps beside those.
enum class Saves { kNothing, kOperands, kResults };
Saves SavesOf(const Builder& builder, OpId op);

}  // namespace ebbtide::model
