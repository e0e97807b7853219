// Automatic mixed precision, as torch.autocast("cuda", dtype) does it: which functions cast their operands, and to
// what. The table in autocast_rules.cc is the thing to read and to extend.
#pragma once

#include <initializer_list>
#include <string_view>

#include "model/builder.h"

namespace ebbtide::model {

enum class Precision {
  kUntouched,      // runs in the type of its operands, the wider one where they differ
  kLow,            // float32 operands are cast down
  kFloat32,        // operands of low precision are cast up
  kFloat32Result,  // computes a float32 result, of the operand as it is where there is such a kernel
};

// By torch's name of the function, or by the ATen kind where that is the same thing.
Precision PrecisionOf(std::string_view function);

// Casts the operands of a call in a forward pass under autocast; else does nothing. A parameter that is trained is cast
// down once per pass, and the copy lives until the pass ends. Invalid operands are None.
void Autocast(Builder& b, std::string_view function, std::initializer_list<TensorId*> operands);

// The type of the result of a kFloat32Result function over `x`, which is cast where no kernel widens it.
DType AutocastResult(Builder& b, std::string_view function, TensorId& x);

}  // namespace ebbtide::model
