// Operators that pick elements by index, and write at indices.
#include <algorithm>

#include "model/onnx/lower.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

Status CheckIndices(const Call& call, TensorId indices) {
  if (!IsFloating(call.b.at(indices).dtype)) return {};
  return call.Wrong("indices: expected integers");
}

Dims Joined(Dims a, const Dims& b, std::size_t skipped) {
  a.insert(a.end(), b.begin() + static_cast<std::ptrdiff_t>(skipped), b.end());
  return a;
}

Status Gather(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  Builder& b = call.b;
  const Dims shape = b.shape(x);
  const auto axis = NormalAxis(call.Int("axis", 0), shape.size());
  if (!axis) return call.Wrong(fmt::format("axis: expected one of {}", ShapeText(shape)));
  const Array* known = call.Contents(1);
  if (known && !known->is_real() && known->shape.empty()) {  // x[i], a view
    const auto index = NormalAxis(known->integer(0), static_cast<std::size_t>(shape[*axis]));
    if (!index) return call.Wrong(fmt::format("index {}: expected one of {}", known->integer(0), shape[*axis]));
    return call.Set(0, op::Select(b, x, *axis, known->integer(0)));
  }
  EBB_ASSIGN_OR_RETURN(TensorId indices, call.Tensor(1));
  EBB_RETURN_IF_ERROR(CheckIndices(call, indices));
  if (*axis == 0 && shape.size() == 2 && IsFloating(b.at(x).dtype)) return call.Set(0, op::Embedding(b, x, indices));
  Dims out(shape.begin(), shape.begin() + *axis);
  out = Joined(Joined(out, b.shape(indices), 0), shape, static_cast<std::size_t>(*axis) + 1);
  const bool flat = b.shape(indices).size() == 1;
  const OutputSpec result{out, b.at(x).dtype};
  if (flat)
    return call.Set(0,
                    b.CallOne("index_select", {{"self", x}, {"dim", std::int64_t{*axis}}, {"index", indices}}, result));
  return call.Set(0, b.CallOne("index", {{"self", x}, {"indices", TensorList{{indices}}}}, result));
}

Status GatherElements(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(TensorId indices, call.Tensor(1));
  EBB_RETURN_IF_ERROR(CheckIndices(call, indices));
  const auto axis = NormalAxis(call.Int("axis", 0), call.b.shape(x).size());
  if (!axis || call.b.shape(indices).size() != call.b.shape(x).size()) {
    return call.Wrong(fmt::format("indices {}: expected as many axes as {}", ShapeText(call.b.shape(indices)),
                                  ShapeText(call.b.shape(x))));
  }
  return call.Set(0, call.b.CallOne("gather", {{"self", x}, {"dim", std::int64_t{*axis}}, {"index", indices}},
                                    {call.b.shape(indices), call.b.at(x).dtype}));
}

// The last axis of the indices addresses axes of x.
Status GatherNd(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(TensorId indices, call.Tensor(1));
  EBB_RETURN_IF_ERROR(CheckIndices(call, indices));
  const Dims shape = call.b.shape(x), places = call.b.shape(indices);
  const std::int64_t batch_axes = call.Int("batch_dims", 0);
  const auto rank = static_cast<std::int64_t>(std::min(shape.size(), places.size()));
  const bool fits = !places.empty() && batch_axes >= 0 && batch_axes < rank && places.back() >= 1 &&
                    places.back() <= static_cast<std::int64_t>(shape.size()) - batch_axes;
  if (!fits) return call.Wrong(fmt::format("indices {}: expected ones into {}", ShapeText(places), ShapeText(shape)));
  const Dims out =
      Joined(Dims(places.begin(), places.end() - 1), shape, static_cast<std::size_t>(batch_axes + places.back()));
  return call.Set(
      0, call.b.CallOne("index", {{"self", x}, {"indices", TensorList{{indices}}}}, {out, call.b.at(x).dtype}));
}

// A copy of x with updates written at the indices.
Status Scatter(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(TensorId indices, call.Tensor(1));
  EBB_ASSIGN_OR_RETURN(TensorId updates, call.Tensor(2));
  EBB_RETURN_IF_ERROR(CheckIndices(call, indices));
  const bool elements = call.node.op == "ScatterElements";
  if (elements && call.b.shape(indices) != call.b.shape(updates)) {
    return call.Wrong(
        fmt::format("updates {}: expected {}", ShapeText(call.b.shape(updates)), ShapeText(call.b.shape(indices))));
  }
  return call.Set(
      0, call.b.CallOne(elements ? "scatter" : "index_put", {{"self", x}, {"index", indices}, {"values", updates}},
                        {call.b.shape(x), call.b.at(x).dtype}));
}

Status OneHot(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId indices, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(const DType dtype, call.Type(2));
  const Array* depth = call.Contents(1);
  if (!depth || !depth->is_uniform()) return call.Wrong("depth: expected a known number");
  Dims shape = call.b.shape(indices);
  const auto axis = NormalAxis(call.Int("axis", -1), shape.size() + 1);
  const double classes = depth->number(0);
  if (!axis || !(classes >= 1 && classes <= 1e12))
    return call.Wrong("axis, depth: expected a new axis of positive size");
  shape.insert(shape.begin() + *axis, static_cast<std::int64_t>(classes));
  if (!CountElements(shape)) return call.Wrong("depth: expected at most 2^48 elements");
  return call.Set(0, call.b.CallOne("one_hot", {{"self", indices}}, {shape, dtype}));
}

Status TopK(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(const Dims counts, call.Integers(1));
  Dims shape = call.b.shape(x);
  const auto axis = NormalAxis(call.Int("axis", -1), shape.size());
  if (!axis || counts.size() != 1 || counts[0] < 1 || counts[0] > shape[*axis]) {
    return call.Wrong(fmt::format("k {}: expected a number within an axis of {}", ShapeText(counts), ShapeText(shape)));
  }
  shape[*axis] = counts[0];
  const std::vector<TensorId> results =
      call.b.Call("topk", {{"self", x}, {"k", counts[0]}, {"dim", std::int64_t{*axis}}},
                  {{shape, call.b.at(x).dtype}, {shape, DType::kInt64}});
  EBB_RETURN_IF_ERROR(call.Set(1, results[1]));
  return call.Set(0, results[0]);
}

// The part below or above a diagonal.
Status Trilu(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  if (call.b.shape(x).size() < 2)
    return call.Wrong(fmt::format("input {}: expected matrices", ShapeText(call.b.shape(x))));
  return call.Set(0, op::Unary(call.b, call.Int("upper", 1) != 0 ? "triu" : "tril", x));
}

constexpr OperatorRow kRules[] = {
    {"Gather", 2, 2, Gather},
    {"GatherElements", 2, 2, GatherElements},
    {"GatherND", 2, 2, GatherNd},
    {"ScatterND", 3, 3, Scatter},
    {"ScatterElements", 3, 3, Scatter},
    {"OneHot", 3, 3, OneHot},
    {"TopK", 2, 2, TopK},
    {"Trilu", 1, 2, Trilu},
};

}  // namespace

std::span<const OperatorRow> IndexRules() { return kRules; }

}  // namespace ebbtide::model::onnx
