// Arguments of ops: what is known in advance becomes a value of the dispatcher's, the rest is looked up at each call.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "run/engine/kernels_abi.h"

namespace ebbtide::torch_kernels {

class Argument {
 public:
  // By the type that the operator's schema gives it. Throws where the value is not of it.
  Argument(const EbbtideValue& value, const c10::Argument& schema);

  // The value for one call. Tensors that no op has yielded yet are undefined ones.
  c10::IValue Value(const std::vector<at::Tensor>& tensors, const double* scalars) const;
  const std::vector<int64_t>& tensors() const { return tensors_; }

 private:
  enum class Kind {
    kConstant,
    kTensor,
    kTensors,
    kOptionalTensors,
    kNumber,
    kNumbers,
    kNumberOfTensor,
    kNumbersOfTensors
  };
  c10::IValue Number(double value) const { return is_float_ ? c10::IValue(value) : c10::IValue(at::Scalar(value)); }

  Kind kind_ = Kind::kConstant;
  c10::IValue constant_;
  std::vector<int64_t> tensors_;
  std::vector<int64_t> scalars_;
  bool is_float_ = false;  // of numbers: float, or any number
};

// The type of that name ("float32"). Throws where torch has none.
at::ScalarType ScalarTypeOf(const char* name);

}  // namespace ebbtide::torch_kernels
