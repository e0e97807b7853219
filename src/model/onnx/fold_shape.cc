// Known arrays cut, joined and reshaped.
#include <unordered_map>

#include "model/onnx/fold.h"

namespace ebbtide::model::onnx {
namespace {

// Elements before, along and behind an axis.
struct Around {
  std::int64_t outer = 1, size = 1, inner = 1;
};
Around SplitAt(const Dims& shape, int axis) {
  Around around;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    (static_cast<int>(i) < axis ? around.outer : static_cast<int>(i) == axis ? around.size : around.inner) *= shape[i];
  }
  return around;
}

// The same elements in another shape.
Folded WithShape(const Array& array, std::optional<Dims> shape) {
  if (!shape || CountElements(*shape) != CountElements(array.shape)) return std::nullopt;
  Array out = array;
  out.shape = std::move(*shape);
  return out;
}

Folded Gather(const Node& node, const KnownInputs& inputs) {
  const Array *x = InputAt(inputs, 0), *index = InputAt(inputs, 1);
  if (x == nullptr || index == nullptr || index->is_real()) return std::nullopt;
  const auto axis = NormalAxis(IntegerOf(node, "axis", 0), x->shape.size());
  if (!axis) return std::nullopt;
  Dims shape(x->shape.begin(), x->shape.begin() + *axis);
  shape.insert(shape.end(), index->shape.begin(), index->shape.end());
  shape.insert(shape.end(), x->shape.begin() + *axis + 1, x->shape.end());
  const auto count = KnownCount(shape, x->is_uniform());
  const auto picks = KnownCount(index->shape, index->is_uniform());
  if (!count || !picks) return std::nullopt;
  const Around around = SplitAt(x->shape, *axis);
  for (std::int64_t at : index->integers) {
    if (at < -around.size || at >= around.size) return std::nullopt;
  }
  return Rearranged(*x, shape, *count, [&](std::int64_t i) {
    const std::int64_t inner = i % around.inner, pick = i / around.inner % *picks, outer = i / around.inner / *picks;
    const std::int64_t at = index->integer(pick);
    return (outer * around.size + (at < 0 ? at + around.size : at)) * around.inner + inner;
  });
}

Folded Concat(const Node& node, const KnownInputs& inputs) {
  const Array* first = InputAt(inputs, 0);
  if (first == nullptr) return std::nullopt;
  const auto axis = NormalAxis(IntegerOf(node, "axis", 0), first->shape.size());
  if (!axis) return std::nullopt;
  Dims shape = first->shape;
  shape[*axis] = 0;
  bool uniform = true;
  for (const Array* x : inputs) {
    if (x == nullptr || x->is_real() != first->is_real() || x->shape.size() != shape.size()) return std::nullopt;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (static_cast<int>(i) != *axis && x->shape[i] != shape[i]) return std::nullopt;
    }
    const auto sum = CheckedAdd(shape[*axis], x->shape[*axis]);
    if (!sum) return std::nullopt;
    shape[*axis] = *sum;
    uniform = uniform && x->is_uniform() && x->number(0) == first->number(0);
  }
  const auto count = KnownCount(shape, uniform && first->is_uniform());
  if (!count) return std::nullopt;
  if (uniform && first->is_uniform()) return WithShape({first->dtype, shape, first->integers, first->reals}, shape);
  Array out{.dtype = first->dtype, .shape = shape};
  const std::int64_t outer = SplitAt(shape, *axis).outer;
  for (std::int64_t row = 0; row < outer; ++row) {
    for (const Array* x : inputs) {
      const Around around = SplitAt(x->shape, *axis);
      for (std::int64_t i = 0; i < around.size * around.inner; ++i) {
        const std::int64_t at = row * around.size * around.inner + i;
        x->is_real() ? out.reals.push_back(x->real(at)) : out.integers.push_back(x->integer(at));
      }
    }
  }
  return Simplified(std::move(out));
}

Folded Slice(const Node&, const KnownInputs& inputs) {
  const Array* x = InputAt(inputs, 0);
  if (x == nullptr) return std::nullopt;
  const auto ranges = SliceRanges(x->shape, inputs);
  if (!ranges) return std::nullopt;
  Array out = *x;
  for (const SliceRange& range : *ranges) {
    Dims shape = out.shape;
    shape[range.axis] = range.count;
    const auto count = KnownCount(shape, out.is_uniform());
    if (!count) return std::nullopt;
    const Around around = SplitAt(out.shape, range.axis);
    out = Rearranged(out, shape, *count, [&](std::int64_t i) {
      const std::int64_t inner = i % around.inner, at = i / around.inner % range.count,
                         outer = i / around.inner / range.count;
      return (outer * around.size + range.start + at * range.step) * around.inner + inner;
    });
  }
  return out;
}

Folded Unsqueeze(const Node& node, const KnownInputs& inputs) {
  const Array* x = InputAt(inputs, 0);
  const auto axes = AxesOf(node, InputAt(inputs, 1));
  if (x == nullptr || !axes) return std::nullopt;
  const auto shape = UnsqueezedShape(x->shape, *axes);
  return WithShape(*x, shape);
}

Folded Squeeze(const Node& node, const KnownInputs& inputs) {
  const Array* x = InputAt(inputs, 0);
  const auto axes = AxesOf(node, InputAt(inputs, 1));
  if (x == nullptr || !axes) return std::nullopt;
  return WithShape(*x, SqueezedShape(x->shape, *axes));
}

Folded Reshape(const Node& node, const KnownInputs& inputs) {
  const Array *x = InputAt(inputs, 0), *wanted = InputAt(inputs, 1);
  if (x == nullptr || wanted == nullptr) return std::nullopt;
  const auto shape = AxesOf(node, wanted);
  if (!shape) return std::nullopt;
  return WithShape(*x, ResolveReshape(x->shape, *shape, IntegerOf(node, "allowzero", 0) != 0));
}

Folded Flatten(const Node& node, const KnownInputs& inputs) {
  const Array* x = InputAt(inputs, 0);
  if (x == nullptr) return std::nullopt;
  std::int64_t axis = IntegerOf(node, "axis", 1);
  if (axis < 0) axis += static_cast<std::int64_t>(x->shape.size());
  if (axis < 0 || axis > static_cast<std::int64_t>(x->shape.size())) return std::nullopt;
  const Around around = SplitAt(x->shape, static_cast<int>(axis));
  return WithShape(*x, Dims{around.outer, around.size * around.inner});
}

Folded Expand(const Node& node, const KnownInputs& inputs) {
  const Array *x = InputAt(inputs, 0), *wanted = InputAt(inputs, 1);
  const auto target = wanted ? AxesOf(node, wanted) : std::nullopt;
  if (x == nullptr || !target || !CountElements(*target)) return std::nullopt;
  const auto shape = Broadcast(x->shape, *target);
  const auto count = shape ? KnownCount(*shape, x->is_uniform()) : std::nullopt;
  if (!count || (*count == 0 && *CountElements(x->shape) != 0)) return std::nullopt;
  Dims step(shape->size(), 0);
  std::int64_t elements = 1;
  for (std::size_t back = 1; back <= x->shape.size(); ++back) {
    const std::int64_t size = x->shape[x->shape.size() - back];
    if (size != 1) step[step.size() - back] = elements;
    elements *= size;
  }
  return Rearranged(*x, *shape, *count, [&](std::int64_t i) {
    std::int64_t source = 0;
    for (std::size_t axis = shape->size(); axis-- > 0; i /= (*shape)[axis]) source += i % (*shape)[axis] * step[axis];
    return source;
  });
}

Folded Transpose(const Node& node, const KnownInputs& inputs) {
  const Array* x = InputAt(inputs, 0);
  if (x == nullptr) return std::nullopt;
  const auto order = PermutationOf(node, x->shape.size());
  if (!order) return std::nullopt;
  Dims shape, stride(x->shape.size(), 1);
  for (std::size_t axis = x->shape.size(); axis-- > 1;) stride[axis - 1] = stride[axis] * x->shape[axis];
  for (int axis : *order) shape.push_back(x->shape[axis]);
  const auto count = KnownCount(shape, x->is_uniform());
  if (!count) return std::nullopt;
  return Rearranged(*x, shape, *count, [&](std::int64_t i) {
    std::int64_t source = 0;
    for (std::size_t axis = shape.size(); axis-- > 0; i /= shape[axis])
      source += i % shape[axis] * stride[(*order)[axis]];
    return source;
  });
}

const std::unordered_map<std::string_view, FoldRule> kRules = {
    {"Gather", Gather},   {"Concat", Concat},   {"Slice", Slice},   {"Unsqueeze", Unsqueeze}, {"Squeeze", Squeeze},
    {"Reshape", Reshape}, {"Flatten", Flatten}, {"Expand", Expand}, {"Transpose", Transpose},
};

}  // namespace

FoldRule FindShapeRule(std::string_view op) {
  auto found = kRules.find(op);
  return found == kRules.end() ? nullptr : found->second;
}

}  // namespace ebbtide::model::onnx
