// Arithmetic on shapes after the definitions of ONNX's operators.
#include "model/onnx/shapes.h"

#include <algorithm>
#include <cstdlib>

namespace ebbtide::model::onnx {

std::optional<std::int64_t> KnownCount(const Dims& shape, bool uniform) {
  const auto count = CountElements(shape);
  if (!count || (*count > kMostKnownElements && !uniform)) return std::nullopt;
  return count;
}

std::optional<Dims> ResolveReshape(const Dims& from, const Dims& wanted, bool allow_zero) {
  if (wanted.size() > kMostAxes) return std::nullopt;
  Dims shape = wanted;
  const auto elements = CountElements(from);
  if (!elements) return std::nullopt;
  std::size_t inferred = shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !allow_zero) {
      if (i >= from.size()) return std::nullopt;
      shape[i] = from[i];
    }
    if (shape[i] == -1) {
      if (inferred != shape.size()) return std::nullopt;
      inferred = i;
    }
  }
  if (inferred != shape.size()) {
    shape[inferred] = 1;
    const auto others = CountElements(shape);
    if (!others || *others == 0 || *elements % *others != 0) return std::nullopt;
    shape[inferred] = *elements / *others;
  }
  if (CountElements(shape) != elements) return std::nullopt;
  return shape;
}

std::optional<Dims> AxesOf(const Node& node, const Array* input) {
  if (input != nullptr) {
    const auto count = KnownCount(input->shape, false);
    if (!count || input->is_real() || input->shape.size() > 1) return std::nullopt;
    Dims axes;
    for (std::int64_t i = 0; i < *count; ++i) axes.push_back(input->integer(i));
    return axes;
  }
  if (const auto* axes = node.Get<std::vector<std::int64_t>>("axes")) return *axes;
  return Dims{};
}

std::optional<std::vector<SliceRange>> SliceRanges(const Dims& shape, const KnownInputs& inputs) {
  auto list = [&](std::size_t i) -> std::optional<Dims> {
    if (i >= inputs.size() || inputs[i] == nullptr) return std::nullopt;
    const auto count = KnownCount(inputs[i]->shape, false);
    if (!count || inputs[i]->is_real()) return std::nullopt;
    Dims values;
    for (std::int64_t k = 0; k < *count; ++k) values.push_back(inputs[i]->integer(k));
    return values;
  };
  const auto starts = list(1), ends = list(2), axes = list(3), steps = list(4);
  if (!starts || !ends || starts->size() != ends->size() || starts->size() > kMostAxes) return std::nullopt;
  if ((axes && axes->size() != starts->size()) || (steps && steps->size() != starts->size())) return std::nullopt;
  std::vector<SliceRange> ranges;
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const auto axis = NormalAxis(axes ? (*axes)[i] : static_cast<std::int64_t>(i), shape.size());
    const std::int64_t step = steps ? (*steps)[i] : 1;
    if (!axis || step == 0 || step == INT64_MIN) return std::nullopt;
    const std::int64_t size = shape[*axis];
    const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    auto bring_inside = [&](std::int64_t at) { return std::clamp(at < 0 ? at + size : at, low, high); };
    SliceRange range{*axis, bring_inside((*starts)[i]), std::clamp(step, -size - 1, size + 1), 0};
    const std::int64_t reach = (bring_inside((*ends)[i]) - range.start) * (step > 0 ? 1 : -1);
    const std::int64_t stride = std::abs(range.step);
    range.count = reach > 0 ? (reach + stride - 1) / stride : 0;
    ranges.push_back(range);
  }
  return ranges;
}

std::optional<Dims> UnsqueezedShape(const Dims& shape, const Dims& axes) {
  const std::size_t rank = shape.size() + axes.size();
  if (rank > kMostAxes) return std::nullopt;
  Dims out(rank, 0);
  for (std::int64_t wanted : axes) {
    const auto axis = NormalAxis(wanted, rank);
    if (!axis || out[*axis] == 1) return std::nullopt;
    out[*axis] = 1;
  }
  auto rest = shape.begin();
  for (std::int64_t& size : out) {
    if (size == 0) size = *rest++;
  }
  return out;
}

std::optional<Dims> SqueezedShape(const Dims& shape, const Dims& axes) {
  std::vector<bool> drop(shape.size());
  for (std::size_t i = 0; i < shape.size() && axes.empty(); ++i) drop[i] = shape[i] == 1;
  for (std::int64_t wanted : axes) {
    const auto axis = NormalAxis(wanted, shape.size());
    if (!axis || shape[*axis] != 1) return std::nullopt;
    drop[*axis] = true;
  }
  Dims out;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!drop[i]) out.push_back(shape[i]);
  }
  return out;
}

std::optional<std::vector<int>> PermutationOf(const Node& node, std::size_t rank) {
  std::vector<int> order;
  const auto* given = node.Get<std::vector<std::int64_t>>("perm");
  if (given == nullptr) {
    for (std::size_t i = rank; i-- > 0;) order.push_back(static_cast<int>(i));
    return order;
  }
  std::vector<bool> seen(rank);
  if (given->size() != rank) return std::nullopt;
  for (std::int64_t wanted : *given) {
    const auto axis = NormalAxis(wanted, rank);
    if (!axis || seen[*axis]) return std::nullopt;
    seen[*axis] = true;
    order.push_back(*axis);
  }
  return order;
}

}  // namespace ebbtide::model::onnx
