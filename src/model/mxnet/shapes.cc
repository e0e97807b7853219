// Rules of operators that move, join and combine; those with weights are in shapes_layers.cc.
#include "model/mxnet/shapes.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/mxnet/inference.h"

namespace ebbtide::model::mxnet {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 50;

// Negative axes count from the end; `extra`: one past the last is one too.
Result<std::size_t> AxisOf(const Node& node, std::string_view attribute, std::int64_t otherwise, std::size_t axes) {
  EBB_ASSIGN_OR_RETURN(std::int64_t axis, IntegerOf(node, attribute, otherwise));
  if (axis < 0) axis += static_cast<std::int64_t>(axes);
  if (axis < 0 || axis >= static_cast<std::int64_t>(axes)) {
    return Fail("attribute {}: expected an axis of {}, found {}", attribute, axes, axis);
  }
  return static_cast<std::size_t>(axis);
}

Status InferSame(Inference& at) {
  if (at.inputs() == 0) return Fail("expected an input");
  EBB_ASSIGN_OR_RETURN(const Dims shape, at.In(0));
  for (std::size_t i = 1; i < at.inputs(); ++i) EBB_RETURN_IF_ERROR(at.Fill(i, shape));
  at.Yield(shape);
  return {};
}

Status InferBroadcast(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2, 2));
  EBB_ASSIGN_OR_RETURN(Dims shape, at.In(0));
  EBB_ASSIGN_OR_RETURN(const Dims other, at.In(1));
  if (shape.size() != other.size()) return Fail("expected as many axes on both sides");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) shape[i] = other[i];
    if (other[i] != 1 && other[i] != shape[i])
      return Fail("expected sizes that broadcast, found {} and {}", shape[i], other[i]);
  }
  at.Yield(shape);
  return {};
}

Status InferConcat(Inference& at) {
  if (at.inputs() == 0) return Fail("expected an input");
  EBB_ASSIGN_OR_RETURN(Dims shape, at.In(0, 1));
  EBB_ASSIGN_OR_RETURN(const std::size_t axis, AxisOf(at.node(), "dim", 1, shape.size()));
  for (std::size_t i = 1; i < at.inputs(); ++i) {
    EBB_ASSIGN_OR_RETURN(Dims other, at.In(i, shape.size()));
    const std::int64_t part = other[axis];
    other[axis] = shape[axis];
    if (other != shape) return Fail("input {}: expected {} but for axis {}", i, TupleText(shape), axis);
    shape[axis] += part;
    if (!CountOf(shape)) return Fail("expected fewer than 2^50 elements, found {}", TupleText(shape));
  }
  at.Yield(shape);
  return {};
}

Status InferSplit(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1, 1));
  EBB_ASSIGN_OR_RETURN(Dims shape, at.In(0, 1));
  EBB_ASSIGN_OR_RETURN(const std::size_t axis, AxisOf(at.node(), "axis", 1, shape.size()));
  EBB_ASSIGN_OR_RETURN(const std::int64_t parts, IntegerOf(at.node(), "num_outputs", 0));
  EBB_ASSIGN_OR_RETURN(const bool squeeze, FlagOf(at.node(), "squeeze_axis", false));
  if (parts < 1 || static_cast<std::size_t>(parts) > kMostOutputs || shape[axis] % parts != 0) {
    return Fail("attribute num_outputs: expected a divisor of {}, found {}", shape[axis], parts);
  }
  shape[axis] /= parts;
  if (squeeze && shape[axis] != 1) return Fail("attribute squeeze_axis: expected parts of 1, found {}", shape[axis]);
  if (squeeze) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  if (shape.empty()) shape = {1};
  for (std::int64_t i = 0; i < parts; ++i) at.Yield(shape);
  return {};
}

// 0: as the input has it; -1: what is left; -2: all further axes; -3: the product of two.
Status InferReshape(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1, 1));
  EBB_ASSIGN_OR_RETURN(const Dims from, at.In(0));
  EBB_ASSIGN_OR_RETURN(const Dims wanted, TupleOf(at.node(), "shape", {}));
  Dims shape;
  std::size_t next = 0;
  std::optional<std::size_t> open;
  for (const std::int64_t size : wanted) {
    const bool copies = size == 0 || size == -3;
    if (copies && next + (size == -3 ? 1 : 0) >= from.size())
      return Fail("attribute shape: expected at most the input's axes");
    if (size == -2) {
      while (next < from.size()) shape.push_back(from[next++]);
    } else if (size == -3) {
      shape.push_back(from[next] * from[next + 1]);
      next += 2;
    } else if (size == -1) {
      if (open) return Fail("attribute shape: expected one -1 at most");
      open = shape.size();
      shape.push_back(1);
      ++next;
    } else if (size < 0) {
      return Fail("attribute shape: expected sizes or 0, -1, -2, -3, found {}", size);
    } else {
      shape.push_back(size == 0 ? from[next] : size);
      ++next;
    }
  }
  const std::optional<std::int64_t> all = CountOf(from), rest = CountOf(shape);
  if (!all || !rest || shape.size() > kMostAxes || *all % *rest != 0 || (!open && *all != *rest)) {
    return Fail("attribute shape: expected as many elements as {} has", TupleText(from));
  }
  if (open) shape[*open] = *all / *rest;
  at.Yield(shape);
  return {};
}

Status InferMoved(Inference& at, ShapeRule rule) {
  EBB_RETURN_IF_ERROR(at.Expect(1, 1));
  EBB_ASSIGN_OR_RETURN(Dims shape, at.In(0, 1));
  const std::size_t axes = shape.size();
  if (rule == ShapeRule::kFlatten) {
    shape = {shape[0], *CountOf(shape) / shape[0]};
  } else if (rule == ShapeRule::kExpandDims) {
    if (axes == kMostAxes) return Fail("expected at most {} axes", kMostAxes);
    EBB_ASSIGN_OR_RETURN(const std::size_t axis, AxisOf(at.node(), "axis", 0, axes + 1));
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  } else if (rule == ShapeRule::kSwapAxes) {
    EBB_ASSIGN_OR_RETURN(const std::size_t one, AxisOf(at.node(), "dim1", 0, axes));
    EBB_ASSIGN_OR_RETURN(const std::size_t two, AxisOf(at.node(), "dim2", 0, axes));
    std::swap(shape[one], shape[two]);
  } else if (rule == ShapeRule::kSliceAxis) {
    EBB_ASSIGN_OR_RETURN(const std::size_t axis, AxisOf(at.node(), "axis", 0, axes));
    EBB_ASSIGN_OR_RETURN(std::int64_t begin, IntegerOf(at.node(), "begin", 0));
    EBB_ASSIGN_OR_RETURN(std::int64_t end, IntegerOf(at.node(), "end", shape[axis]));
    if (begin < 0) begin += shape[axis];
    if (end < 0) end += shape[axis];
    end = std::min(end, shape[axis]);
    if (begin < 0 || begin >= end) return Fail("attributes begin, end: expected a part of {}", shape[axis]);
    shape[axis] = end - begin;
  } else {
    EBB_ASSIGN_OR_RETURN(const Dims order, TupleOf(at.node(), "axes", {}));
    Dims moved(shape.rbegin(), shape.rend());
    Dims sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order.size() != axes || sorted[i] != static_cast<std::int64_t>(i))
        return Fail("attribute axes: expected each axis once");
      moved[i] = shape[static_cast<std::size_t>(order[i])];
    }
    shape = moved;
  }
  at.Yield(shape);
  return {};
}

Status InferMean(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1, 1));
  EBB_ASSIGN_OR_RETURN(const Dims shape, at.In(0, 1));
  EBB_ASSIGN_OR_RETURN(Dims over, TupleOf(at.node(), "axis", {}));
  EBB_ASSIGN_OR_RETURN(const bool keeps, FlagOf(at.node(), "keepdims", false));
  for (std::int64_t& axis : over) axis = axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis;
  Dims left;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool gone = over.empty() || std::find(over.begin(), over.end(), static_cast<std::int64_t>(i)) != over.end();
    if (!gone || keeps) left.push_back(gone ? 1 : shape[i]);
  }
  if (left.empty()) left = {1};
  at.Yield(left);
  return {};
}

Status InferBatchDot(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2, 2));
  EBB_ASSIGN_OR_RETURN(Dims x, at.In(0, 3));
  EBB_ASSIGN_OR_RETURN(Dims y, at.In(1, 3));
  EBB_ASSIGN_OR_RETURN(const bool turns_x, FlagOf(at.node(), "transpose_a", false));
  EBB_ASSIGN_OR_RETURN(const bool turns_y, FlagOf(at.node(), "transpose_b", false));
  if (turns_x) std::swap(x[1], x[2]);
  if (turns_y) std::swap(y[1], y[2]);
  if (x.size() != 3 || y.size() != 3 || x[0] != y[0] || x[2] != y[1])
    return Fail("expected batches of matrices that can be multiplied");
  at.Yield({x[0], x[1], y[2]});
  return {};
}

// A label has the shape of the classes without their axis; its elements are all that counts.
Status InferSoftmaxOutput(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2, 2));
  EBB_ASSIGN_OR_RETURN(const Dims shape, at.In(0, 1));
  if (!at.IsKnown(1)) EBB_RETURN_IF_ERROR(at.Fill(1, {shape[0]}));
  if (const Result<Dims> label = at.In(1); !label) return tl::unexpected<Error>(label.error());
  at.Yield(shape);
  return {};
}

Status InferDropout(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1, 1));
  EBB_ASSIGN_OR_RETURN(const Dims shape, at.In(0));
  at.Yield(shape);
  at.Yield(shape);
  return {};
}

Status InferZeros(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(0, 0));
  EBB_ASSIGN_OR_RETURN(Dims shape, TupleOf(at.node(), "shape", {}));
  for (std::int64_t& size : shape) size = size == 0 ? at.batch() : size;
  if (shape.empty()) shape = {1};
  at.Yield(shape);
  return {};
}

Status InferNode(Inference& at, const Operator& op) {
  switch (op.shapes) {
    case ShapeRule::kSame: return InferSame(at);
    case ShapeRule::kBroadcast: return InferBroadcast(at);
    case ShapeRule::kConvolution: return InferConvolution(at);
    case ShapeRule::kFullyConnected: return InferFullyConnected(at);
    case ShapeRule::kBatchNorm: return InferNorm(at, true);
    case ShapeRule::kLayerNorm: return InferNorm(at, false);
    case ShapeRule::kPooling: return InferPooling(at, op.name == "Pooling:max");
    case ShapeRule::kConcat: return InferConcat(at);
    case ShapeRule::kSplit: return InferSplit(at);
    case ShapeRule::kReshape: return InferReshape(at);
    case ShapeRule::kFlatten:
    case ShapeRule::kExpandDims:
    case ShapeRule::kSwapAxes:
    case ShapeRule::kSliceAxis:
    case ShapeRule::kTranspose: return InferMoved(at, op.shapes);
    case ShapeRule::kEmbedding: return InferEmbedding(at);
    case ShapeRule::kRecurrent: return InferRecurrent(at);
    case ShapeRule::kSoftmaxOutput: return InferSoftmaxOutput(at);
    case ShapeRule::kDropout: return InferDropout(at);
    case ShapeRule::kZeros: return InferZeros(at);
    case ShapeRule::kMean: return InferMean(at);
    case ShapeRule::kBatchDot: return InferBatchDot(at);
  }
  return {};
}

Status InferOne(Symbol& symbol, int number, std::int64_t batch, std::size_t& outputs) {
  const Operator* op = FindOperator(symbol.node(number));
  if (op == nullptr) return Fail("is an operator that is not known (docs/mxnet.md lists those that are)");
  Inference at(symbol, number, batch);
  EBB_RETURN_IF_ERROR(InferNode(at, *op));
  const std::vector<Dims>& shapes = symbol.node(number).shapes;
  for (const Dims& shape : shapes) {
    if (!CountOf(shape))
      return Fail("expected sizes of at least 1 and less than 2^50 elements, found {}", TupleText(shape));
  }
  outputs += shapes.size();
  if (outputs > kMostOutputs) return Fail("expected at most {} outputs in all", kMostOutputs);
  return {};
}

}  // namespace

std::optional<std::int64_t> CountOf(const Dims& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 1 || __builtin_mul_overflow(count, size, &count) || count > kMostElements) return std::nullopt;
  }
  return count;
}

Result<Dims> Inference::In(std::size_t input) const {
  if (input >= inputs()) return Fail("expected at least {} inputs, found {}", input + 1, inputs());
  const Entry entry = node().inputs[input];
  const Node& from = symbol_.node(entry.node);
  if (from.shapes.empty()) {
    return Fail("input {} ({}): its shape is not known; expected a __shape__ there", input,
                Describe(symbol_, entry.node));
  }
  if (static_cast<std::size_t>(entry.output) >= from.shapes.size()) {
    return Fail("input {}: expected an output of {} below {}, found {}", input, Describe(symbol_, entry.node),
                from.shapes.size(), entry.output);
  }
  return symbol_.shape(entry);
}

Result<Dims> Inference::In(std::size_t input, std::size_t axes) const {
  EBB_ASSIGN_OR_RETURN(Dims shape, In(input));
  if (shape.size() < axes) return Fail("input {}: expected at least {} axes, found {}", input, axes, TupleText(shape));
  return shape;
}

bool Inference::IsKnown(std::size_t input) const {
  return input < inputs() && !symbol_.node(node().inputs[input].node).shapes.empty();
}

Status Inference::Fill(std::size_t input, const Dims& shape) {
  if (input >= inputs()) return Fail("expected at least {} inputs, found {}", input + 1, inputs());
  if (!CountOf(shape)) return Fail("input {}: expected sizes of at least 1, found {}", input, TupleText(shape));
  Node& from = symbol_.node(node().inputs[input].node);
  if (from.is_variable() && from.shapes.empty()) from.shapes = {shape};
  EBB_ASSIGN_OR_RETURN(const Dims found, In(input));
  if (found != shape) return Fail("input {}: expected {}, found {}", input, TupleText(shape), TupleText(found));
  return {};
}

Status Inference::Expect(std::size_t least, std::size_t most) const {
  if (inputs() >= least && inputs() <= most) return {};
  if (least == most) return Fail("expected {} inputs, found {}", least, inputs());
  return Fail("expected {} to {} inputs, found {}", least, most, inputs());
}

Status InferShapes(Symbol& symbol, std::int64_t batch) {
  std::size_t outputs = 0;
  for (std::size_t i = 0; i < symbol.nodes.size(); ++i) {
    const int number = static_cast<int>(i);
    if (symbol.nodes[i].is_variable()) {
      for (const Dims& shape : symbol.nodes[i].shapes) {
        if (!CountOf(shape)) return Fail("{}: expected fewer than 2^50 elements", Describe(symbol, number));
      }
      continue;
    }
    if (const Status status = InferOne(symbol, number, batch, outputs); !status) {
      return Within(Describe(symbol, number), status.error());
    }
  }
  for (const Entry head : symbol.heads) {
    if (static_cast<std::size_t>(head.output) >= symbol.node(head.node).shapes.size()) {
      return Fail("heads: expected an output of {}, found {}", Describe(symbol, head.node), head.output);
    }
  }
  return {};
}

}  // namespace ebbtide::model::mxnet
