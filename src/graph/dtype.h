// Element types, with the names torch gives them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ebbtide {

enum class DType : std::uint8_t {
  kBool,
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128
};

std::int64_t ItemSize(DType dtype);
std::string_view Name(DType dtype);  // "float32"
std::optional<DType> DTypeFromName(std::string_view name);

constexpr bool IsFloating(DType dtype) { return dtype >= DType::kFloat16; }

}  // namespace ebbtide
