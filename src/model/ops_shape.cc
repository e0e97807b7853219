// Views, copies and reductions. A view shares the storage of what it looks at.
#include <algorithm>
#include <cassert>

#include "model/autocast_rules.h"
#include "model/ops.h"

namespace ebbtide::model::op {

namespace {

int Axis(const Builder& b, TensorId x, int dim) {
  int rank = static_cast<int>(b.shape(x).size());
  int axis = dim < 0 ? dim + rank : dim;
  assert(axis >= 0 && axis < rank);
  return axis;
}

// Strides under which the storage of `from` reads as `shape`; nothing if only a copy can give that shape.
// Axes of `from` fall into runs that are contiguous among themselves; each run must be cut up by axes of `shape`.
std::optional<Dims> ViewStride(const Tensor& from, const Dims& shape) {
  if (ElementCount(from.shape) == 0) return ContiguousStride(shape);
  Dims stride(shape.size());
  int target = static_cast<int>(shape.size()) - 1;
  std::int64_t run_stride = from.stride.empty() ? 1 : from.stride.back();
  std::int64_t run_elements = 1;
  std::int64_t placed = 1;
  for (int axis = static_cast<int>(from.shape.size()) - 1; axis >= 0; --axis) {
    run_elements *= from.shape[axis];
    bool run_ends = axis == 0 || (from.shape[axis - 1] != 1 && from.stride[axis - 1] != run_elements * run_stride);
    if (!run_ends) continue;
    while (target >= 0 && (placed < run_elements || shape[target] == 1)) {
      stride[target] = placed * run_stride;
      placed *= shape[target];
      --target;
    }
    if (placed != run_elements) return std::nullopt;
    if (axis > 0) {
      run_stride = from.stride[axis - 1];
      run_elements = 1;
      placed = 1;
    }
  }
  for (; target >= 0; --target) stride[target] = 1;
  return stride;
}

Dims Reduced(const Dims& shape, const Dims& dims, bool keep_dims) {
  Dims out;
  int rank = static_cast<int>(shape.size());
  for (int i = 0; i < rank; ++i) {
    bool reduce =
        dims.empty() || std::ranges::any_of(dims, [&](std::int64_t d) { return (d < 0 ? d + rank : d) == i; });
    if (!reduce) out.push_back(shape[i]);
    if (reduce && keep_dims) out.push_back(1);
  }
  return out;
}

}  // namespace

TensorId Reshape(Builder& b, TensorId x, Dims shape) {
  std::int64_t known = 1;
  for (std::int64_t size : shape) known *= size == -1 ? 1 : std::max<std::int64_t>(size, 1);
  std::ranges::replace(shape, std::int64_t{-1}, ElementCount(b.shape(x)) / known);
  assert(ElementCount(shape) == ElementCount(b.shape(x)));
  if (shape == b.shape(x)) return x;
  if (std::optional<Dims> stride = ViewStride(b.at(x), shape)) {
    std::int64_t offset = b.at(x).offset;
    return b.View("view", x, {{"size", shape}}, shape, *stride, offset);
  }
  TensorId copy = Contiguous(b, x);
  return b.View("_unsafe_view", copy, {{"size", shape}}, shape, ContiguousStride(shape), 0);
}

TensorId Flatten(Builder& b, TensorId x, int start_dim, int end_dim) {
  int start = Axis(b, x, start_dim), end = Axis(b, x, end_dim);
  const Dims& from = b.shape(x);
  Dims shape(from.begin(), from.begin() + start);
  shape.push_back(ElementCount(Dims(from.begin() + start, from.begin() + end + 1)));
  shape.insert(shape.end(), from.begin() + end + 1, from.end());
  return Reshape(b, x, shape);
}

TensorId Transpose(Builder& b, TensorId x, int dim0, int dim1) {
  Tensor view = b.at(x);
  int a = Axis(b, x, dim0), c = Axis(b, x, dim1);
  std::swap(view.shape[a], view.shape[c]);
  std::swap(view.stride[a], view.stride[c]);
  return b.View("transpose", x, {{"dim0", std::int64_t{a}}, {"dim1", std::int64_t{c}}}, view.shape, view.stride,
                view.offset);
}

TensorId T(Builder& b, TensorId x) {
  const Tensor view = b.at(x);
  assert(view.shape.size() == 2);
  return b.View("t", x, {}, {view.shape[1], view.shape[0]}, {view.stride[1], view.stride[0]}, view.offset);
}

TensorId Permute(Builder& b, TensorId x, std::vector<int> dims) {
  Tensor view = b.at(x);
  Dims order;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    int axis = Axis(b, x, dims[i]);
    order.push_back(axis);
    view.shape[i] = b.at(x).shape[axis];
    view.stride[i] = b.at(x).stride[axis];
  }
  return b.View("permute", x, {{"dims", order}}, view.shape, view.stride, view.offset);
}

TensorId Expand(Builder& b, TensorId x, Dims shape) {
  Tensor from = b.at(x);
  std::size_t added = shape.size() - from.shape.size();
  Dims stride(shape.size(), 0);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t size = i < added ? 1 : from.shape[i - added];
    if (shape[i] == -1) shape[i] = size;
    assert(size == shape[i] || size == 1);
    if (i >= added && size == shape[i]) stride[i] = from.stride[i - added];
  }
  if (shape == from.shape) return x;
  return b.View("expand", x, {{"size", shape}}, shape, stride, from.offset);
}

TensorId Unsqueeze(Builder& b, TensorId x, int dim) {
  Tensor view = b.at(x);
  int rank = static_cast<int>(view.shape.size());
  int axis = dim < 0 ? dim + rank + 1 : dim;
  std::int64_t stride = axis < rank ? view.shape[axis] * view.stride[axis] : 1;
  view.shape.insert(view.shape.begin() + axis, 1);
  view.stride.insert(view.stride.begin() + axis, stride);
  return b.View("unsqueeze", x, {{"dim", std::int64_t{axis}}}, view.shape, view.stride, view.offset);
}

TensorId Squeeze(Builder& b, TensorId x, int dim) {
  Tensor view = b.at(x);
  int axis = Axis(b, x, dim);
  assert(view.shape[axis] == 1);
  view.shape.erase(view.shape.begin() + axis);
  view.stride.erase(view.stride.begin() + axis);
  return b.View("squeeze", x, {{"dim", std::int64_t{axis}}}, view.shape, view.stride, view.offset);
}

TensorId Slice(Builder& b, TensorId x, int dim, std::int64_t start, std::int64_t end, std::int64_t step) {
  Tensor view = b.at(x);
  int axis = Axis(b, x, dim);
  std::int64_t size = view.shape[axis];
  auto clamp = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  start = clamp(start);
  end = std::max(clamp(end), start);
  view.shape[axis] = (end - start + step - 1) / step;
  std::int64_t offset = view.offset + start * view.stride[axis];
  view.stride[axis] *= step;
  return b.View("slice", x, {{"dim", std::int64_t{axis}}, {"start", start}, {"end", end}, {"step", step}}, view.shape,
                view.stride, offset);
}

TensorId Select(Builder& b, TensorId x, int dim, std::int64_t index) {
  Tensor view = b.at(x);
  int axis = Axis(b, x, dim);
  if (index < 0) index += view.shape[axis];
  std::int64_t offset = view.offset + index * view.stride[axis];
  view.shape.erase(view.shape.begin() + axis);
  view.stride.erase(view.stride.begin() + axis);
  return b.View("select", x, {{"dim", std::int64_t{axis}}, {"index", index}}, view.shape, view.stride, offset);
}

std::vector<TensorId> Split(Builder& b, TensorId x, const Dims& sizes, int dim) {
  int axis = Axis(b, x, dim);
  return b.Views("split_with_sizes", x, {{"split_sizes", sizes}, {"dim", std::int64_t{axis}}}, sizes, axis);
}

std::vector<TensorId> Chunk(Builder& b, TensorId x, int chunks, int dim) {
  int axis = Axis(b, x, dim);
  std::int64_t size = b.shape(x)[axis];
  std::int64_t step = (size + chunks - 1) / chunks;
  Dims sizes;
  for (std::int64_t start = 0; start < size; start += step) sizes.push_back(std::min(step, size - start));
  return b.Views("split", x, {{"split_size", step}, {"dim", std::int64_t{axis}}}, sizes, axis);
}

TensorId Contiguous(Builder& b, TensorId x) {
  if (IsContiguous(b.at(x))) return x;
  return b.CallOne("clone", {{"self", x}, {"memory_format", Named{"memory_format", "contiguous"}}},
                   {b.shape(x), b.at(x).dtype});
}

TensorId Clone(Builder& b, TensorId x) {
  Dims stride = IsDense(b.at(x)) ? b.at(x).stride : ContiguousStride(b.shape(x));
  return b.CallOne("clone", {{"self", x}}, {b.shape(x), b.at(x).dtype, stride});
}

TensorId Cat(Builder& b, const std::vector<TensorId>& tensors, int dim) {
  int axis = Axis(b, tensors[0], dim);
  Dims shape = b.shape(tensors[0]);
  shape[axis] = 0;
  for (TensorId id : tensors) {
    Dims expected = shape;
    expected[axis] = b.shape(id)[axis];
    if (b.shape(id) != expected) {
      b.Fail(fmt::format("cannot join tensors of shape [{}] and [{}] along axis {}",
                         fmt::join(b.shape(tensors[0]), ", "), fmt::join(b.shape(id), ", "), axis));
    }
    shape[axis] += b.shape(id)[axis];
  }
  return b.CallOne("cat", {{"tensors", TensorList{tensors}}, {"dim", std::int64_t{axis}}},
                   {shape, b.at(tensors[0]).dtype});
}

TensorId Stack(Builder& b, const std::vector<TensorId>& tensors, int dim) {
  Dims shape = b.shape(tensors[0]);
  int axis = dim < 0 ? dim + static_cast<int>(shape.size()) + 1 : dim;
  shape.insert(shape.begin() + axis, static_cast<std::int64_t>(tensors.size()));
  return b.CallOne("stack", {{"tensors", TensorList{tensors}}, {"dim", std::int64_t{axis}}},
                   {shape, b.at(tensors[0]).dtype});
}

TensorId ConstantPad(Builder& b, TensorId x, const Dims& pad) {
  Dims shape = b.shape(x);
  for (std::size_t i = 0; i + 1 < pad.size(); i += 2) shape[shape.size() - 1 - i / 2] += pad[i] + pad[i + 1];
  return b.CallOne("constant_pad_nd", {{"self", x}, {"pad", pad}}, {shape, b.at(x).dtype});
}

TensorId Mean(Builder& b, TensorId x, Dims dims, bool keep_dims) {
  Dims shape = Reduced(b.shape(x), dims, keep_dims);
  return b.CallOne("mean", {{"self", x}, {"dim", dims}, {"keepdim", keep_dims}}, {shape, b.at(x).dtype});
}

TensorId Sum(Builder& b, TensorId x, Dims dims, bool keep_dims) {
  Dims shape = Reduced(b.shape(x), dims, keep_dims);
  DType dtype = AutocastResult(b, "sum", x);
  return b.CallOne("sum", {{"self", x}, {"dim", dims}, {"keepdim", keep_dims}}, {shape, dtype});
}

TensorId Arange(Builder& b, std::int64_t count) {
  return b.CallOne("arange", {{"end", count}}, {{count}, DType::kInt64});
}

TensorId Fill(Builder& b, const std::string& kind, Dims shape, DType dtype) {
  return b.CallOne(kind, {{"size", shape}}, {shape, dtype});
}

}  // namespace ebbtide::model::op
