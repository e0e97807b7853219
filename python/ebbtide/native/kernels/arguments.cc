// Turns values of the engine's interface into values of torch's dispatcher, by the types of an operator's schema.
#include "arguments.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>

#include <string>
#include <string_view>
#include <utility>

namespace ebbtide::torch_kernels {
namespace {

using c10::TypeKind;

constexpr std::pair<std::string_view, at::ScalarType> kTypes[] = {{"bool", at::kBool},
                                                                  {"uint8", at::kByte},
                                                                  {"int8", at::kChar},
                                                                  {"int16", at::kShort},
                                                                  {"int32", at::kInt},
                                                                  {"int64", at::kLong},
                                                                  {"float16", at::kHalf},
                                                                  {"bfloat16", at::kBFloat16},
                                                                  {"float32", at::kFloat},
                                                                  {"float64", at::kDouble},
                                                                  {"complex64", at::kComplexFloat},
                                                                  {"complex128", at::kComplexDouble}};

c10::IValue NamedValue(std::string_view type, const char* text) {
  const std::string_view name = text;
  if (type == "dtype") return static_cast<int64_t>(ScalarTypeOf(text));
  if (type == "device") return c10::Device(text);
  if (type == "layout") {
    TORCH_CHECK(name == "strided", "a layout of ", text, "; expected strided");
    return static_cast<int64_t>(c10::Layout::Strided);
  }
  if (type == "memory_format") {
    if (name == "contiguous") return static_cast<int64_t>(c10::MemoryFormat::Contiguous);
    if (name == "preserve") return static_cast<int64_t>(c10::MemoryFormat::Preserve);
    if (name == "channels_last") return static_cast<int64_t>(c10::MemoryFormat::ChannelsLast);
    if (name == "channels_last_3d") return static_cast<int64_t>(c10::MemoryFormat::ChannelsLast3d);
  }
  TORCH_CHECK(false, "a ", type, " of ", text, " is not known");
}

at::Scalar ScalarOf(const EbbtideValue& value) {
  switch (value.kind) {
    case EBBTIDE_BOOL: return at::Scalar(value.integer != 0);
    case EBBTIDE_INTEGER: return at::Scalar(value.integer);
    case EBBTIDE_REAL: return at::Scalar(value.real);
    default: TORCH_CHECK(false, "expected a number");
  }
}

c10::IValue Single(const EbbtideValue& value, TypeKind type) {
  if (value.kind == EBBTIDE_NAMED) return NamedValue(value.type, value.text);
  switch (type) {
    case TypeKind::TensorType: return at::native::wrapped_scalar_tensor(ScalarOf(value));
    case TypeKind::FloatType: return ScalarOf(value).toDouble();
    case TypeKind::IntType:
    case TypeKind::SymIntType: return ScalarOf(value).toLong();
    case TypeKind::BoolType: return ScalarOf(value).toBool();
    case TypeKind::NumberType: return ScalarOf(value);
    case TypeKind::StringType:
      TORCH_CHECK(value.kind == EBBTIDE_STRING, "expected a string");
      return std::string(value.text);
    default: TORCH_CHECK(false, "a type that graphs do not have: ", c10::typeKindToString(type));
  }
}

c10::IValue ListOf(const EbbtideValue& value, TypeKind element) {
  const auto real = [&](std::size_t i) {
    return value.kind == EBBTIDE_REALS ? value.reals[i] : static_cast<double>(value.integers[i]);
  };
  switch (element) {
    case TypeKind::IntType:
    case TypeKind::SymIntType: {
      TORCH_CHECK(value.kind == EBBTIDE_INTEGERS, "expected whole numbers");
      return std::vector<int64_t>(value.integers, value.integers + value.count);
    }
    case TypeKind::FloatType: {
      std::vector<double> out;
      for (std::size_t i = 0; i < value.count; ++i) out.push_back(real(i));
      return out;
    }
    case TypeKind::BoolType: {
      TORCH_CHECK(value.kind == EBBTIDE_INTEGERS, "expected bools");
      c10::List<bool> out;
      for (std::size_t i = 0; i < value.count; ++i) out.push_back(value.integers[i] != 0);
      return out;
    }
    case TypeKind::NumberType: {
      c10::impl::GenericList out(c10::NumberType::get());
      for (std::size_t i = 0; i < value.count; ++i) {
        out.push_back(value.kind == EBBTIDE_REALS ? at::Scalar(value.reals[i]) : at::Scalar(value.integers[i]));
      }
      return out;
    }
    case TypeKind::TensorType: {
      TORCH_CHECK(value.count == 0, "expected tensors");
      return c10::List<at::Tensor>();
    }
    default: TORCH_CHECK(false, "a list that graphs do not have: of ", c10::typeKindToString(element));
  }
}

}  // namespace

at::ScalarType ScalarTypeOf(const char* name) {
  for (const auto& [known, type] : kTypes) {
    if (known == name) return type;
  }
  TORCH_CHECK(false, "a dtype of ", name, " is not known");
}

Argument::Argument(const EbbtideValue& value, const c10::Argument& schema) {
  c10::TypePtr type = schema.type();
  if (value.kind == EBBTIDE_NONE) {
    if (type->kind() == TypeKind::TensorType) constant_ = at::Tensor();  // one that is not there
    return;
  }
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  TypeKind kind = type->kind();
  c10::TypePtr element;
  if (const auto list = type->cast<c10::ListType>()) element = list->getElementType();
  const bool of_tensors =
      kind == TypeKind::TensorType ||
      (element && (element->kind() == TypeKind::TensorType || element->kind() == TypeKind::OptionalType));
  is_float_ = kind == TypeKind::FloatType || (element && element->kind() == TypeKind::FloatType);
  switch (value.kind) {
    case EBBTIDE_TENSOR:
      tensors_ = {value.integer};
      kind_ = of_tensors ? Kind::kTensor : Kind::kNumberOfTensor;
      break;
    case EBBTIDE_TENSORS:
      tensors_.assign(value.integers, value.integers + value.count);
      kind_ = !of_tensors                                 ? Kind::kNumbersOfTensors
              : element->kind() == TypeKind::OptionalType ? Kind::kOptionalTensors
                                                          : Kind::kTensors;
      break;
    case EBBTIDE_SCALAR:
      TORCH_CHECK(!of_tensors || kind == TypeKind::TensorType, "expected tensors");
      scalars_ = {value.integer};
      kind_ = Kind::kNumber;
      if (of_tensors) kind_ = Kind::kNumber, constant_ = true;  // a wrapped number
      break;
    case EBBTIDE_SCALARS:
      scalars_.assign(value.integers, value.integers + value.count);
      kind_ = Kind::kNumbers;
      break;
    default: constant_ = element ? ListOf(value, element->kind()) : Single(value, kind);
  }
}

c10::IValue Argument::Value(const std::vector<at::Tensor>& tensors, const double* scalars) const {
  const auto at = [&](int64_t n) { return n < 0 ? at::Tensor() : tensors[static_cast<std::size_t>(n)]; };
  switch (kind_) {
    case Kind::kConstant: return constant_;
    case Kind::kTensor: return at(tensors_[0]);
    case Kind::kTensors: {
      c10::List<at::Tensor> out;
      out.reserve(tensors_.size());
      for (const int64_t n : tensors_) out.push_back(at(n));
      return out;
    }
    case Kind::kOptionalTensors: {
      c10::List<std::optional<at::Tensor>> out;
      for (const int64_t n : tensors_) out.push_back(n < 0 ? std::optional<at::Tensor>() : at(n));
      return out;
    }
    case Kind::kNumber: {
      const double number = scalars[scalars_[0]];
      return constant_.isBool() ? c10::IValue(at::native::wrapped_scalar_tensor(at::Scalar(number))) : Number(number);
    }
    case Kind::kNumberOfTensor: return Number(at(tensors_[0]).item<double>());
    case Kind::kNumbers:
    case Kind::kNumbersOfTensors: {
      std::vector<double> numbers;
      for (const int64_t n : scalars_) numbers.push_back(scalars[n]);
      for (const int64_t n : tensors_) numbers.push_back(at(n).item<double>());
      if (is_float_) return numbers;
      c10::impl::GenericList out(c10::NumberType::get());
      for (const double number : numbers) out.push_back(at::Scalar(number));
      return out;
    }
  }
  return {};
}

}  // namespace ebbtide::torch_kernels
