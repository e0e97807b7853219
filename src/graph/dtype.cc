// One row per element type.
#include "graph/dtype.h"

#include <array>
#include <cstddef>

namespace ebbtide {
namespace {

struct Row {
  DType dtype;
  std::int64_t bytes;
  std::string_view name;
};
constexpr std::array kRows = {
    Row{DType::kBool, 1, "bool"},           Row{DType::kUInt8, 1, "uint8"},
    Row{DType::kInt8, 1, "int8"},           Row{DType::kInt16, 2, "int16"},
    Row{DType::kInt32, 4, "int32"},         Row{DType::kInt64, 8, "int64"},
    Row{DType::kFloat16, 2, "float16"},     Row{DType::kBFloat16, 2, "bfloat16"},
    Row{DType::kFloat32, 4, "float32"},     Row{DType::kFloat64, 8, "float64"},
    Row{DType::kComplex64, 8, "complex64"}, Row{DType::kComplex128, 16, "complex128"},
};

constexpr bool RowsFollowTheEnum() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<std::size_t>(kRows[i].dtype) != i) return false;
  }
  return kRows.back().dtype == DType::kComplex128;
}
static_assert(RowsFollowTheEnum(), "an element type is its row's place");

const Row& RowOf(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::int64_t ItemSize(DType dtype) { return RowOf(dtype).bytes; }

std::string_view Name(DType dtype) { return RowOf(dtype).name; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace ebbtide
