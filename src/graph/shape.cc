// Products and sums of sizes with a check at each step.
#include "graph/shape.h"

#include <algorithm>

namespace ebbtide {

std::optional<std::int64_t> ElementCount(const Dims& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t count = 1;
  for (const std::int64_t dim : shape) {
    if (__builtin_mul_overflow(count, dim, &count)) return std::nullopt;
  }
  return count;
}

std::optional<Dims> ContiguousStride(const Dims& shape) {
  Dims stride(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    stride[i] = step;
    // The product of all dimensions is not a stride and may overflow.
    if (i > 0 && __builtin_mul_overflow(step, std::max<std::int64_t>(shape[i], 1), &step)) return std::nullopt;
  }
  return stride;
}

std::optional<Bytes> Reach(const Tensor& tensor) {
  std::int64_t last = tensor.offset;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] == 0) return 0;
  }
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    std::int64_t span = 0;
    if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.stride[i], &span) ||
        __builtin_add_overflow(last, span, &last)) {
      return std::nullopt;
    }
  }
  const auto elements = CheckedAdd(last, 1);
  return elements ? CheckedMul(*elements, ItemSize(tensor.dtype)) : std::nullopt;
}

}  // namespace ebbtide
