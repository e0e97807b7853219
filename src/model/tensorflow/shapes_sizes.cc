// Operators that tell or take sizes.
#include <algorithm>

#include "model/tensorflow/fold.h"
#include "model/tensorflow/inference.h"

namespace ebbtide::model::tensorflow {
namespace {

constexpr Type kInt32 = {Kind::kNumbers, DType::kInt32};

// Of a tensor, or of the variable that a handle is of.
Dims ShapeOf(Inference& at, std::size_t input) {
  const Value& value = at.In(input);
  if (value.type.kind != Kind::kResource || value.variable == kNone) return value.shape;
  return at.flat().variables[static_cast<std::size_t>(value.variable)].shape;
}

}  // namespace

Status InferShape(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1, kMostNodeInputs));
  const Type type = at.TypeFrom("out_type", kInt32);
  for (std::size_t i = 0; i < at.inputs(); ++i) at.YieldIntegers(ShapeOf(at, i), type);
  return {};
}

Status InferSize(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1));
  const Dims shape = ShapeOf(at, 0);
  const std::int64_t value =
      at.op() == "Rank" ? static_cast<std::int64_t>(shape.size()) : CountElements(shape).value_or(0);
  const Type type = at.TypeFrom("out_type", kInt32);
  at.Yield(type, {}, IntegerArray({}, {value}, type.dtype));
  return {};
}

Status InferReshape(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  EBB_ASSIGN_OR_RETURN(Dims shape, at.Integers(1));
  const auto total = CountElements(at.Shape(0));
  std::int64_t rest = 1;
  std::size_t open = shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && open == shape.size()) {
      open = i;
    } else if (shape[i] < 0) {
      return Fail("expected sizes, of which one may be -1");
    } else {
      const auto next = CountElements({rest, shape[i]});
      if (!next) return Fail("expected at most 2^48 elements");
      rest = *next;
    }
  }
  if (open < shape.size()) {
    if (rest == 0 || *total % rest != 0) return Fail("{} elements do not fit", *total);
    shape[open] = *total / rest;
  }
  if (CountElements(shape) != total) return Fail("expected {} elements", *total);
  const Array* known = at.Known(0);
  std::optional<Array> result;
  if (known) result = Reshaped(*known, shape);
  at.Yield(at.TypeOf(0), std::move(shape), std::move(result));
  return {};
}

Status InferSqueeze(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1));
  const Dims& from = at.Shape(0);
  std::vector<bool> is_dropped(from.size());
  const Dims axes = at.Sizes("squeeze_dims");
  for (const std::int64_t axis : axes) {
    const auto normal = NormalAxis(axis, from.size());
    if (!normal || from[static_cast<std::size_t>(*normal)] != 1) return Fail("axis {}: expected one of size 1", axis);
    is_dropped[static_cast<std::size_t>(*normal)] = true;
  }
  Dims shape;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!is_dropped[i] && (!axes.empty() || from[i] != 1)) shape.push_back(from[i]);
  }
  const Array* known = at.Known(0);
  std::optional<Array> result;
  if (known) result = Reshaped(*known, shape);
  at.Yield(at.TypeOf(0), std::move(shape), std::move(result));
  return {};
}

Status InferExpandDims(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  EBB_ASSIGN_OR_RETURN(const Dims axis, at.Integers(1));
  Dims shape = at.Shape(0);
  const auto normal = axis.size() == 1 ? NormalAxis(axis[0], shape.size() + 1) : std::nullopt;
  if (!normal) return Fail("expected an axis");
  shape.insert(shape.begin() + *normal, 1);
  const Array* known = at.Known(0);
  std::optional<Array> result;
  if (known) result = Reshaped(*known, shape);
  at.Yield(at.TypeOf(0), std::move(shape), std::move(result));
  return {};
}

// Fill of a shape with a value; BroadcastTo of a value to a shape.
Status InferFill(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  const std::size_t value = at.op() == "Fill" ? 1 : 0;
  EBB_ASSIGN_OR_RETURN(Dims shape, at.ShapeFrom(1 - value));
  if (Broadcast(at.Shape(value), shape) != shape) return Fail("expected a value that broadcasts");
  const Array* known = at.Known(value);
  std::optional<Array> result;
  if (known && known->is_uniform()) result = Reshaped(*known, shape);
  at.Yield(at.TypeOf(value), std::move(shape), std::move(result));
  return {};
}

Status InferRange(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(3));
  Dims bounds;
  for (std::size_t i = 0; i < 3; ++i) {
    EBB_ASSIGN_OR_RETURN(const Dims value, at.Integers(i));
    if (value.size() != 1 || std::abs(value[0]) > kMostElements) return Fail("expected numbers");
    bounds.push_back(value[0]);
  }
  if (bounds[2] == 0) return Fail("expected a step other than 0");
  const std::int64_t span = bounds[2] > 0 ? bounds[1] - bounds[0] : bounds[0] - bounds[1];
  const std::int64_t step = std::abs(bounds[2]), count = span <= 0 ? 0 : (span + step - 1) / step;
  const Type type = at.TypeOf(0);
  if (count > kMostKnownElements) {
    at.Yield(type, {count});
    return {};
  }
  Dims values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(bounds[0] + i * bounds[2]);
  at.YieldIntegers(values, type);
  return {};
}

// The axes over which gradients of both operands of a broadcast are summed.
Status InferBroadcastGradient(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  EBB_ASSIGN_OR_RETURN(const Dims a, at.ShapeFrom(0));
  EBB_ASSIGN_OR_RETURN(const Dims b, at.ShapeFrom(1));
  const auto whole = Broadcast(a, b);
  if (!whole) return Fail("expected shapes that broadcast");
  const auto axes = [&](const Dims& shape) {
    Dims summed;
    const std::size_t more = whole->size() - shape.size();
    for (std::size_t i = 0; i < whole->size(); ++i) {
      if (i < more || (shape[i - more] == 1 && (*whole)[i] != 1)) summed.push_back(static_cast<std::int64_t>(i));
    }
    return summed;
  };
  const Type type = at.TypeOf(0);
  at.YieldIntegers(axes(a), type);
  at.YieldIntegers(axes(b), type);
  return {};
}

Status InferConcatOffset(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2, kMostNodeInputs));
  EBB_ASSIGN_OR_RETURN(const Dims axis, at.Integers(0));
  const Type type = at.TypeOf(1);
  std::int64_t offset = 0;
  for (std::size_t i = 1; i < at.inputs(); ++i) {
    EBB_ASSIGN_OR_RETURN(const Dims shape, at.ShapeFrom(i));
    const auto normal = axis.size() == 1 ? NormalAxis(axis[0], shape.size()) : std::nullopt;
    if (!normal) return Fail("expected an axis");
    Dims offsets(shape.size());
    offsets[static_cast<std::size_t>(*normal)] = offset;
    offset += shape[static_cast<std::size_t>(*normal)];
    at.YieldIntegers(offsets, type);
  }
  return {};
}

Status InferDynamicStitch(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2, kMostNodeInputs));
  const std::size_t half = at.inputs() / 2;
  Dims values;
  for (std::size_t i = 0; i < half; ++i) {
    EBB_ASSIGN_OR_RETURN(const Dims places, at.Integers(i));
    EBB_ASSIGN_OR_RETURN(const Dims data, at.Integers(half + i));
    if (places.size() != data.size()) return Fail("expected numbers for all places");
    for (std::size_t k = 0; k < places.size(); ++k) {
      if (places[k] < 0 || places[k] >= kMostKnownElements) return Fail("expected places");
      if (places[k] >= static_cast<std::int64_t>(values.size())) values.resize(static_cast<std::size_t>(places[k]) + 1);
      values[static_cast<std::size_t>(places[k])] = data[k];
    }
  }
  at.YieldIntegers(values, at.TypeOf(half));
  return {};
}

Status InferInvertPermutation(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1));
  EBB_ASSIGN_OR_RETURN(const Dims order, at.Integers(0));
  Dims inverse(order.size(), -1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] < 0 || order[i] >= static_cast<std::int64_t>(order.size())) return Fail("expected an order");
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  at.YieldIntegers(inverse, at.TypeOf(0));
  return {};
}

Status InferRandom(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1, 6));
  EBB_ASSIGN_OR_RETURN(Dims shape, at.ShapeFrom(0));
  at.Yield(at.TypeFrom("dtype", at.TypeFrom("Tout", {})), std::move(shape));
  return {};
}

Status InferRandomKey(Inference& at) {
  at.Yield({Kind::kNumbers, DType::kInt64}, {1});
  at.Yield({Kind::kNumbers, DType::kInt64}, {2});
  return {};
}

}  // namespace ebbtide::model::tensorflow
