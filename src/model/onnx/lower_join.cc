// Operators that join tensors, cut them, repeat them or pad them.
#include <algorithm>
#include <numeric>

#include "model/onnx/lower.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

Status Concat(Call& call) {
  std::vector<TensorId> tensors;
  for (std::size_t i = 0; i < call.node.inputs.size(); ++i) {
    EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(i));
    tensors.push_back(x);
  }
  const Dims first = call.b.shape(tensors[0]);
  const auto axis = NormalAxis(call.Int("axis", 0), first.size());
  if (!axis) return call.Wrong(fmt::format("axis: expected one of {}", ShapeText(first)));
  for (TensorId x : tensors) {
    Dims shape = call.b.shape(x);
    if (shape.size() == first.size()) shape[*axis] = first[*axis];
    if (shape != first) {
      return call.Wrong(fmt::format("{} and {}: expected shapes that differ in axis {} alone", ShapeText(first),
                                    ShapeText(call.b.shape(x)), *axis));
    }
  }
  return call.Set(0, op::Cat(call.b, tensors, *axis));
}

// Sizes of the parts that Split and SplitToSequence cut an axis into.
Result<Dims> PartSizes(Call& call, std::int64_t size, std::size_t parts) {
  Dims sizes = call.Ints("split").value_or(Dims{});
  if (call.Has(1)) {
    EBB_ASSIGN_OR_RETURN(sizes, call.Integers(1));
  }
  if (sizes.empty()) {
    const auto count = static_cast<std::int64_t>(parts);
    const std::int64_t each = (size + count - 1) / count;
    for (std::int64_t start = 0; start < size; start += each) sizes.push_back(std::min(each, size - start));
  }
  std::int64_t sum = 0;
  for (std::int64_t part : sizes) {
    if (part < 1 || part > size - sum)
      return call.Wrong(fmt::format("split {}: expected parts of {}", ShapeText(sizes), size));
    sum += part;
  }
  if (sum != size || sizes.size() != parts) {
    return call.Wrong(fmt::format("split {}: expected {} parts of {}", ShapeText(sizes), parts, size));
  }
  return sizes;
}

// Equal parts are torch's split; others its split_with_sizes.
std::vector<TensorId> Cut(Builder& b, TensorId x, const Dims& sizes, int axis) {
  const bool equal = std::ranges::all_of(sizes, [&](std::int64_t size) { return size == sizes[0]; });
  return equal ? op::Chunk(b, x, static_cast<int>(sizes.size()), axis) : op::Split(b, x, sizes, axis);
}

Status Split(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  const Dims shape = call.b.shape(x);
  const auto axis = NormalAxis(call.Int("axis", 0), shape.size());
  if (!axis) return call.Wrong(fmt::format("axis: expected one of {}", ShapeText(shape)));
  if (call.node.outputs.empty()) return call.Wrong("expected outputs");
  EBB_ASSIGN_OR_RETURN(const Dims sizes, PartSizes(call, shape[*axis], call.node.outputs.size()));
  const std::vector<TensorId> parts = Cut(call.b, x, sizes, *axis);
  for (std::size_t i = 0; i < parts.size(); ++i) EBB_RETURN_IF_ERROR(call.Set(i, parts[i]));
  return {};
}

Status SplitToSequence(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  const Dims shape = call.b.shape(x);
  const auto axis = NormalAxis(call.Int("axis", 0), shape.size());
  if (!axis) return call.Wrong(fmt::format("axis: expected one of {}", ShapeText(shape)));
  std::int64_t each = 1;
  const Array* split = call.Contents(1);
  if (call.Has(1) && (!split || split->is_real())) return call.Wrong("input 1: expected known integers");
  std::vector<TensorId> parts;
  if (split && !split->shape.empty()) {
    EBB_ASSIGN_OR_RETURN(const Dims sizes,
                         PartSizes(call, shape[*axis], static_cast<std::size_t>(*CountElements(split->shape))));
    parts = Cut(call.b, x, sizes, *axis);
  } else {
    if (split) each = split->integer(0);
    if (each < 1 || (shape[*axis] - 1) / each >= static_cast<std::int64_t>(kMostNodeValues)) {
      return call.Wrong(fmt::format("split {}: expected 1 to {} parts", each, kMostNodeValues));
    }
    each = std::min(each, shape[*axis]);
    Dims sizes;
    for (std::int64_t start = 0; start < shape[*axis]; start += each)
      sizes.push_back(std::min(each, shape[*axis] - start));
    parts = op::Split(call.b, x, sizes, *axis);
  }
  if (!split && call.Int("keepdims", 1) == 0) {
    for (TensorId& part : parts) part = op::Squeeze(call.b, part, *axis);
  }
  call.SetSequence(0, std::move(parts));
  return {};
}

Status SequenceConstruct(Call& call) {
  std::vector<TensorId> tensors;
  for (std::size_t i = 0; i < call.node.inputs.size(); ++i) {
    EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(i));
    tensors.push_back(x);
  }
  call.SetSequence(0, std::move(tensors));
  return {};
}

Status SequenceAt(Call& call) {
  EBB_ASSIGN_OR_RETURN(const auto* sequence, call.Sequence(0));
  const Array* place = call.Contents(1);
  if (!place || place->is_real() || !place->is_uniform()) return call.Wrong("input 1: expected a known integer");
  const auto index = NormalAxis(place->integer(0), sequence->size());
  if (!index)
    return call.Wrong(fmt::format("position {}: expected one of {} tensors", place->integer(0), sequence->size()));
  return call.Set(0, (*sequence)[*index]);
}

Status ConcatFromSequence(Call& call) {
  EBB_ASSIGN_OR_RETURN(const auto* sequence, call.Sequence(0));
  const Dims first = call.b.shape(sequence->front());
  const bool stack = call.Int("new_axis", 0) != 0;
  const auto axis = NormalAxis(call.Int("axis", 0), first.size() + (stack ? 1 : 0));
  if (!axis) return call.Wrong(fmt::format("axis: expected one of {}", ShapeText(first)));
  for (TensorId x : *sequence) {
    Dims shape = call.b.shape(x);
    if (!stack && shape.size() == first.size()) shape[*axis] = first[*axis];
    if (shape != first) return call.Wrong("expected tensors whose shapes fit together");
  }
  return call.Set(0, stack ? op::Stack(call.b, *sequence, *axis) : op::Cat(call.b, *sequence, *axis));
}

Status Tile(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(const Dims repeats, call.Integers(1));
  Dims shape = call.b.shape(x);
  if (repeats.size() != shape.size())
    return call.Wrong(fmt::format("repeats {}: expected one per axis of {}", ShapeText(repeats), ShapeText(shape)));
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (repeats[i] < 1 || repeats[i] > kMostElements)
      return call.Wrong(fmt::format("repeats {}: expected positive numbers", ShapeText(repeats)));
    shape[i] = SaturatingMul(shape[i], repeats[i]);
  }
  if (!CountElements(shape))
    return call.Wrong(fmt::format("repeats {}: expected at most 2^48 elements", ShapeText(repeats)));
  return call.Set(0, call.b.CallOne("repeat", {{"self", x}, {"repeats", repeats}}, {shape, call.b.at(x).dtype}));
}

// Amounts per axis, before and after.
Result<std::vector<std::pair<std::int64_t, std::int64_t>>> Pads(Call& call, const Dims& shape) {
  EBB_ASSIGN_OR_RETURN(const Dims pads, call.Integers(1));
  Dims axes(shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (call.Has(3)) {
    EBB_ASSIGN_OR_RETURN(axes, call.Integers(3));
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> amounts(shape.size());
  if (pads.size() != 2 * axes.size()) return call.Wrong(fmt::format("pads {}: expected two per axis", ShapeText(pads)));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = NormalAxis(axes[i], shape.size());
    const std::int64_t before = pads[i], after = pads[i + axes.size()];
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    const bool in_range = axis && std::abs(before) <= kMost && std::abs(after) <= kMost;
    if (!in_range || shape[*axis] + before + after < 1) {
      return call.Wrong(
          fmt::format("pads {}: expected amounts that leave something of {}", ShapeText(pads), ShapeText(shape)));
    }
    amounts[*axis] = {before, after};
  }
  return amounts;
}

Status Pad(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  Dims shape = call.b.shape(x);
  EBB_ASSIGN_OR_RETURN(const auto amounts, Pads(call, shape));
  Dims pad;  // torch's order: from the last axis that is padded
  std::size_t first = 0;
  while (first < amounts.size() && amounts[first] == std::pair<std::int64_t, std::int64_t>()) ++first;
  for (std::size_t i = shape.size(); i-- > first;) {
    pad.push_back(amounts[i].first);
    pad.push_back(amounts[i].second);
    shape[i] += amounts[i].first + amounts[i].second;
  }
  if (pad.empty()) return call.Set(0, x);
  if (!CountElements(shape)) return call.Wrong("pads: expected at most 2^48 elements");
  const std::string mode = call.Text("mode", "constant");
  if (mode == "constant") return call.Set(0, op::ConstantPad(call.b, x, pad));
  if (mode != "reflect" && mode != "edge") return call.Wrong("mode: expected constant, reflect or edge");
  const std::string kind = fmt::format("{}_pad{}d", mode == "reflect" ? "reflection" : "replication",
                                       std::min<std::size_t>(pad.size() / 2, 3));
  return call.Set(0, call.b.CallOne(kind, {{"self", x}, {"padding", pad}}, {shape, call.b.at(x).dtype}));
}

constexpr OperatorRow kJoinRules[] = {
    {"Concat", 1, kAnyNumber, Concat}, {"Split", 1, 2, Split}, {"Tile", 2, 2, Tile}, {"Pad", 2, 4, Pad}};
constexpr OperatorRow kSequenceRules[] = {
    {"SplitToSequence", 1, 2, SplitToSequence},
    {"SequenceConstruct", 1, kAnyNumber, SequenceConstruct},
    {"SequenceAt", 2, 2, SequenceAt},
    {"ConcatFromSequence", 1, 1, ConcatFromSequence},
};

}  // namespace

std::span<const OperatorRow> JoinRules() { return kJoinRules; }
std::span<const OperatorRow> SequenceRules() { return kSequenceRules; }

}  // namespace ebbtide::model::onnx
