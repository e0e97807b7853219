// Shapes of operators that work along axes: reductions, joining, cutting, reordering.
#include <algorithm>

#include "model/tensorflow/fold.h"
#include "model/tensorflow/inference.h"

namespace ebbtide::model::tensorflow {
namespace {

Result<std::size_t> AxisOf(std::int64_t axis, std::size_t axes) {
  const auto normal = NormalAxis(axis, axes);
  if (!normal) return Fail("axis {}: expected one of {}", axis, axes);
  return static_cast<std::size_t>(*normal);
}

Result<std::size_t> OneAxis(const Inference& at, std::size_t input, std::size_t axes) {
  EBB_ASSIGN_OR_RETURN(const Dims axis, at.Integers(input));
  if (axis.size() != 1) return Fail("input {}: expected one axis", input);
  return AxisOf(axis[0], axes);
}

}  // namespace

Status InferReduction(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  EBB_ASSIGN_OR_RETURN(const Dims axes, at.Integers(1));
  const Dims& from = at.Shape(0);
  std::vector<bool> is_reduced(from.size());
  for (const std::int64_t axis : axes) {
    EBB_ASSIGN_OR_RETURN(const std::size_t normal, AxisOf(axis, from.size()));
    is_reduced[normal] = true;
  }
  const bool keeps = at.Flag("keep_dims", false);
  Dims shape;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!is_reduced[i]) shape.push_back(from[i]);
    if (is_reduced[i] && keeps) shape.push_back(1);
  }
  const Array* known = at.Known(0);
  std::optional<Array> result;
  if (known && axes.empty()) result = *known;
  if (known && !axes.empty()) result = FoldReduction(at.op(), *known, shape);
  at.Yield(at.TypeOf(0), std::move(shape), std::move(result));
  return {};
}

Status InferArgument(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  Dims shape = at.Shape(0);
  EBB_ASSIGN_OR_RETURN(const std::size_t axis, OneAxis(at, 1, shape.size()));
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  at.Yield(at.TypeFrom("output_type", {Kind::kNumbers, DType::kInt64}), std::move(shape));
  return {};
}

Status InferTranspose(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  EBB_ASSIGN_OR_RETURN(const Dims order, at.Integers(1));
  const Dims& from = at.Shape(0);
  Dims sorted = order, shape;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<std::int64_t>(i)) return Fail("expected an order of the axes");
  }
  if (order.size() != from.size()) return Fail("expected an order of {} axes, found {}", from.size(), order.size());
  // The kernel hands on what it need not move.
  if (order == sorted && !at.Known(0)) {
    at.YieldSame(at.node().inputs[0]);
    return {};
  }
  for (const std::int64_t axis : order) shape.push_back(from[static_cast<std::size_t>(axis)]);
  at.Yield(at.TypeOf(0), std::move(shape));
  return {};
}

Status InferConcat(Inference& at) {
  const bool is_first = at.op() == "Concat";  // the axis comes last in V2
  EBB_RETURN_IF_ERROR(at.Expect(2, kMostNodeInputs));
  const std::size_t begin = is_first ? 1 : 0, end = is_first ? at.inputs() : at.inputs() - 1;
  Dims shape = at.Shape(begin);
  EBB_ASSIGN_OR_RETURN(const std::size_t axis, OneAxis(at, is_first ? 0 : end, shape.size()));
  shape[axis] = 0;
  bool all_known = shape.size() == 1;
  for (std::size_t i = begin; i < end; ++i) {
    Dims part = at.Shape(i);
    if (part.size() != shape.size()) return Fail("expected parts of {} axes", shape.size());
    shape[axis] += std::exchange(part[axis], 0);
    Dims rest = shape;
    rest[axis] = 0;
    if (part != rest || shape[axis] > kMostElements) return Fail("expected parts that differ in one axis only");
    all_known = all_known && at.Known(i) != nullptr && at.Shape(i)[0] <= kMostKnownElements;
  }
  std::optional<Array> known;
  if (all_known && shape[0] <= kMostKnownElements) {
    known = Array{.dtype = at.TypeOf(begin).dtype, .shape = shape};
    for (std::size_t i = begin; i < end; ++i) {
      for (std::int64_t k = 0; k < at.Shape(i)[0]; ++k) {
        if (known->is_real()) known->reals.push_back(at.Known(i)->real(static_cast<std::size_t>(k)));
        if (!known->is_real()) known->integers.push_back(at.Known(i)->integer(static_cast<std::size_t>(k)));
      }
    }
    known = Simplified(std::move(*known));
  }
  at.Yield(at.TypeOf(begin), std::move(shape), std::move(known));
  return {};
}

Status InferSplit(Inference& at) {
  const bool has_sizes = at.op() == "SplitV";
  EBB_RETURN_IF_ERROR(at.Expect(has_sizes ? 3 : 2));
  const std::size_t source = has_sizes ? 0 : 1;
  Dims shape = at.Shape(source);
  const Type type = at.TypeOf(source);
  EBB_ASSIGN_OR_RETURN(const std::size_t axis, OneAxis(at, has_sizes ? 2 : 0, shape.size()));
  const std::int64_t parts = at.Integer("num_split", 1);
  if (parts < 1 || parts > static_cast<std::int64_t>(kMostNodeInputs)) return Fail("num_split: expected 1 to 65536");
  if (!has_sizes) {
    if (shape[axis] % parts != 0) return Fail("expected {} equal parts of {}", parts, shape[axis]);
    shape[axis] /= parts;
    for (std::int64_t i = 0; i < parts; ++i) at.Yield(type, shape);
    return {};
  }
  EBB_ASSIGN_OR_RETURN(Dims sizes, at.Integers(1));
  std::int64_t rest = shape[axis];
  for (const std::int64_t size : sizes) {
    if (size < -1 || size > shape[axis]) return Fail("expected parts of {}", shape[axis]);
    rest -= std::max<std::int64_t>(size, 0);
  }
  if (rest < 0) return Fail("expected parts of {}", shape[axis]);
  for (const std::int64_t size : sizes) {
    Dims part = shape;
    part[axis] = size < 0 ? rest : size;
    at.Yield(type, std::move(part));
  }
  return {};
}

Status InferPack(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1, kMostNodeInputs));
  Dims shape = at.Shape(0);
  EBB_ASSIGN_OR_RETURN(const std::size_t axis, AxisOf(at.Integer("axis", 0), shape.size() + 1));
  bool all_known = shape.empty();
  for (std::size_t i = 0; i < at.inputs(); ++i) {
    if (at.Shape(i) != shape) return Fail("expected inputs of one shape");
    all_known = all_known && at.Known(i) != nullptr;
  }
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<std::int64_t>(at.inputs()));
  std::optional<Array> known;
  if (all_known && static_cast<std::int64_t>(at.inputs()) <= kMostKnownElements) {
    known = Array{.dtype = at.TypeOf(0).dtype, .shape = shape};
    for (std::size_t i = 0; i < at.inputs(); ++i) {
      if (known->is_real()) known->reals.push_back(at.Known(i)->real(0));
      if (!known->is_real()) known->integers.push_back(at.Known(i)->integer(0));
    }
    known = Simplified(std::move(*known));
  }
  at.Yield(at.TypeOf(0), std::move(shape), std::move(known));
  return {};
}

Status InferUnpack(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1));
  Dims shape = at.Shape(0);
  const Type type = at.TypeOf(0);
  EBB_ASSIGN_OR_RETURN(const std::size_t axis, AxisOf(at.Integer("axis", 0), shape.size()));
  const std::int64_t count = shape[axis];
  if (count > static_cast<std::int64_t>(kMostNodeInputs)) return Fail("expected at most {} parts", kMostNodeInputs);
  const std::optional<Array> whole = at.In(0).known;
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  for (std::int64_t i = 0; i < count; ++i) {
    std::optional<Array> known;
    if (whole && shape.empty()) known = Picked(*whole, {}, [&](std::int64_t) { return i; });
    at.Yield(type, shape, std::move(known));
  }
  return {};
}

Status InferPad(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2, 3));
  EBB_ASSIGN_OR_RETURN(const Dims paddings, at.Integers(1));
  Dims shape = at.Shape(0);
  if (paddings.size() != 2 * shape.size()) return Fail("expected two paddings for each axis");
  for (std::size_t i = 0; i < paddings.size(); ++i) {
    if (paddings[i] < 0 || paddings[i] > kMostElements) return Fail("expected paddings from 0 to 2^48");
    shape[i / 2] += paddings[i];
  }
  at.Yield(at.TypeOf(0), std::move(shape));
  return {};
}

Status InferTile(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  EBB_ASSIGN_OR_RETURN(const Dims times, at.ShapeFrom(1));
  Dims shape = at.Shape(0);
  if (times.size() != shape.size()) return Fail("expected a number for each of {} axes", shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto size = CountElements({shape[i], times[i]});
    if (!size) return Fail("expected at most 2^48 elements");
    shape[i] = *size;
  }
  const Array* known = at.Known(0);
  std::optional<Array> result;
  if (known && known->is_uniform()) result = Reshaped(*known, shape);
  at.Yield(at.TypeOf(0), std::move(shape), std::move(result));
  return {};
}

// Gather, GatherV2 and ResourceGather, which reads a variable.
Status InferGather(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2, 3));
  const Value& source = at.In(0);
  Dims from = source.shape;
  Type type = source.type;
  if (source.variable != kNone && type.kind == Kind::kResource) {
    const Variable& variable = at.flat().variables[static_cast<std::size_t>(source.variable)];
    from = variable.shape;
    type = {Kind::kNumbers, variable.dtype};
  }
  std::size_t axis = 0;
  if (at.inputs() == 3) {
    EBB_ASSIGN_OR_RETURN(axis, OneAxis(at, 2, from.size()));
  }
  if (from.empty()) return Fail("expected at least 1 axis");
  const std::int64_t batch = at.Integer("batch_dims", 0);
  const Dims& places = at.Shape(1);
  if (batch < 0 || batch > static_cast<std::int64_t>(std::min(axis, places.size())))
    return Fail("batch_dims: expected 0 to {}", std::min(axis, places.size()));
  Dims shape(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(axis));
  shape.insert(shape.end(), places.begin() + batch, places.end());
  shape.insert(shape.end(), from.begin() + static_cast<std::ptrdiff_t>(axis) + 1, from.end());
  std::optional<Array> known;
  if (from.size() == 1 && at.Known(0) && at.Known(1)) {
    const Array places_known = *at.Known(1);
    known =
        Picked(*at.Known(0), shape, [&](std::int64_t i) { return places_known.integer(static_cast<std::size_t>(i)); });
  }
  at.Yield(type, std::move(shape), std::move(known));
  return {};
}

Status InferSegmentSum(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(3));
  EBB_ASSIGN_OR_RETURN(const Dims count, at.ShapeFrom(2));
  const Dims &data = at.Shape(0), &places = at.Shape(1);
  if (count.size() != 1 || places.size() > data.size()) return Fail("expected a number of segments");
  Dims shape = {count[0]};
  shape.insert(shape.end(), data.begin() + static_cast<std::ptrdiff_t>(places.size()), data.end());
  at.Yield(at.TypeOf(0), std::move(shape));
  return {};
}

Status InferOneHot(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(4));
  EBB_ASSIGN_OR_RETURN(const Dims depth, at.ShapeFrom(1));
  Dims shape = at.Shape(0);
  if (depth.size() != 1) return Fail("expected a depth");
  EBB_ASSIGN_OR_RETURN(const std::size_t axis, AxisOf(at.Integer("axis", -1), shape.size() + 1));
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), depth[0]);
  at.Yield(at.TypeOf(2), std::move(shape));
  return {};
}

Status InferResize(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  EBB_ASSIGN_OR_RETURN(Dims shape, at.Shape(0, 4));
  EBB_ASSIGN_OR_RETURN(const Dims size, at.ShapeFrom(1));
  if (size.size() != 2) return Fail("expected a height and a width");
  shape[1] = size[0];
  shape[2] = size[1];
  at.Yield(at.op() == "ResizeBilinear" ? Type{} : at.TypeOf(0), std::move(shape));
  return {};
}

}  // namespace ebbtide::model::tensorflow
