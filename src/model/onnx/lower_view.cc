// Operators that look at a tensor in another shape; torch copies only where a view cannot.
#include <algorithm>

#include "model/onnx/lower.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

Status Reshape(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(const Dims wanted, call.Integers(1));
  const Dims from = call.b.shape(x);
  const auto shape = ResolveReshape(from, wanted, call.Int("allowzero", 0) != 0);
  if (!shape) {
    return call.Wrong(
        fmt::format("shape {}: expected one of as many elements as {}", ShapeText(wanted), ShapeText(from)));
  }
  return call.Set(0, op::Reshape(call.b, x, *shape));
}

Status Flatten(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  const Dims from = call.b.shape(x);
  const auto rank = static_cast<std::int64_t>(from.size());
  std::int64_t axis = call.Int("axis", 1);
  if (axis < -rank || axis > rank) return call.Wrong(fmt::format("axis {}: expected one of {}", axis, ShapeText(from)));
  if (axis < 0) axis += rank;
  const Dims rows(from.begin(), from.begin() + axis), columns(from.begin() + axis, from.end());
  return call.Set(0, op::Reshape(call.b, x, {ElementCount(rows), ElementCount(columns)}));
}

Status Transpose(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  const Dims from = call.b.shape(x);
  const auto order = PermutationOf(call.node, from.size());
  if (!order) return call.Wrong(fmt::format("perm: expected an order of the axes of {}", ShapeText(from)));
  if (std::ranges::is_sorted(*order)) return call.Set(0, x);
  if (from.size() == 2) return call.Set(0, op::T(call.b, x));
  return call.Set(0, op::Permute(call.b, x, *order));
}

Result<Dims> Axes(Call& call, std::size_t i) {
  if (call.Has(i)) return call.Integers(i);
  return call.Ints("axes").value_or(Dims{});
}

Status Squeeze(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(const Dims axes, Axes(call, 1));
  const auto shape = SqueezedShape(call.b.shape(x), axes);
  if (!shape)
    return call.Wrong(
        fmt::format("axes {}: expected axes of size 1 of {}", ShapeText(axes), ShapeText(call.b.shape(x))));
  return call.Set(0, op::Reshape(call.b, x, *shape));
}

Status Unsqueeze(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(const Dims axes, Axes(call, 1));
  const auto shape = UnsqueezedShape(call.b.shape(x), axes);
  if (!shape)
    return call.Wrong(fmt::format("axes {}: expected new axes beside {}", ShapeText(axes), ShapeText(call.b.shape(x))));
  Dims ordered;
  for (std::int64_t axis : axes) ordered.push_back(*NormalAxis(axis, shape->size()));
  std::ranges::sort(ordered);
  for (std::int64_t axis : ordered) x = op::Unsqueeze(call.b, x, static_cast<int>(axis));
  return call.Set(0, x);
}

Status Expand(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(const Dims wanted, call.Integers(1));
  const auto shape = CountElements(wanted) ? Broadcast(call.b.shape(x), wanted) : std::nullopt;
  if (!shape) {
    return call.Wrong(
        fmt::format("shape {}: expected one that {} broadcasts to", ShapeText(wanted), ShapeText(call.b.shape(x))));
  }
  return call.Set(0, op::Expand(call.b, x, *shape));
}

Status Slice(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  KnownInputs inputs = {nullptr};
  for (std::size_t i = 1; i < call.node.inputs.size(); ++i) {
    inputs.push_back(call.Contents(i));
    if (call.Has(i) && !inputs.back()) {
      return call.Wrong(fmt::format("input {}: expected integers that follow from constants and shapes", i));
    }
  }
  const auto ranges = SliceRanges(call.b.shape(x), inputs);
  if (!ranges)
    return call.Wrong(fmt::format("expected starts, ends, axes and steps for {}", ShapeText(call.b.shape(x))));
  for (const SliceRange& range : *ranges) {
    const std::int64_t size = call.b.shape(x)[range.axis];
    if (range.count == 0)
      return call.Wrong(fmt::format("axis {} of {}: nothing is left", range.axis, ShapeText(call.b.shape(x))));
    if (range.step > 0) {
      if (range.count == size) continue;
      const std::int64_t end = range.start + (range.count - 1) * range.step + 1;
      x = op::Slice(call.b, x, range.axis, range.start, end, range.step);
      continue;
    }
    if (range.step != -1) return call.Wrong(fmt::format("step {}: expected -1 where it is negative", range.step));
    const std::int64_t first = range.start - range.count + 1;
    if (range.count != size) x = op::Slice(call.b, x, range.axis, first, range.start + 1);
    x = op::Unary(call.b, "flip", x, {{"dims", Dims{range.axis}}});
  }
  return call.Set(0, x);
}

Status Identity(Call& call) {
  if (call.Has(0)) {
    if (auto sequence = call.Sequence(0)) {
      call.SetSequence(0, **sequence);
      return {};
    }
  }
  // What exporters leave of contiguous(), which copies where the elements do not lie in order.
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  return call.Set(0, op::Contiguous(call.b, x));
}

// blocks^2 channels become a blocks times larger image, or back.
Status DepthSpace(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  Dims shape = call.b.shape(x);
  const std::int64_t block = call.Int("blocksize", 0);
  const bool to_space = call.node.op == "DepthToSpace";
  const bool in_range = shape.size() == 4 && block >= 1 && block <= 1024;
  if (!in_range || (to_space ? shape[1] % (block * block) != 0 : shape[2] % block != 0 || shape[3] % block != 0)) {
    return call.Wrong(fmt::format("blocksize {}: expected one that divides {}", block, ShapeText(shape)));
  }
  shape[1] = to_space ? shape[1] / (block * block) : SaturatingMul(shape[1], block * block);
  for (std::size_t i : {2, 3}) shape[i] = to_space ? SaturatingMul(shape[i], block) : shape[i] / block;
  return call.Set(
      0, call.b.CallOne(to_space ? "pixel_shuffle" : "pixel_unshuffle", {{"self", x}}, {shape, call.b.at(x).dtype}));
}

constexpr OperatorRow kRules[] = {
    {"Reshape", 2, 2, Reshape},
    {"Flatten", 1, 1, Flatten},
    {"Transpose", 1, 1, Transpose},
    {"Squeeze", 1, 2, Squeeze},
    {"Unsqueeze", 1, 2, Unsqueeze},
    {"Expand", 2, 2, Expand},
    {"Slice", 3, 5, Slice},
    {"Identity", 1, 1, Identity},
    {"DepthToSpace", 1, 1, DepthSpace},
    {"SpaceToDepth", 1, 1, DepthSpace},
};

}  // namespace

std::span<const OperatorRow> ViewRules() { return kRules; }

}  // namespace ebbtide::model::onnx
