// Reductions over axes, and running sums.
#include <algorithm>
#include <unordered_map>

#include "model/onnx/lower.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

const std::unordered_map<std::string_view, const char*> kKinds = {
    {"ReduceMean", "mean"},
    {"ReduceSum", "sum"},
    {"ReduceMax", "amax"},
    {"ReduceMin", "amin"},
    {"ReduceProd", "prod"},
    {"ReduceL1", "linalg_vector_norm"},
    {"ReduceL2", "linalg_vector_norm"},
    {"ReduceLogSumExp", "logsumexp"},
    {"ReduceSumSquare", "sum"},
    {"ReduceLogSum", "sum"},
};

// All axes where none are given, unless the node says that this means none.
Result<Dims> ReducedAxes(Call& call, std::size_t rank) {
  Dims axes = call.Ints("axes").value_or(Dims{});
  if (call.Has(1)) {
    EBB_ASSIGN_OR_RETURN(axes, call.Integers(1));
  }
  Dims out;
  for (std::int64_t wanted : axes) {
    const auto axis = NormalAxis(wanted, rank);
    if (!axis || std::ranges::find(out, *axis) != out.end()) {
      return call.Wrong(fmt::format("axes {}: expected distinct ones of {}", ShapeText(axes), rank));
    }
    out.push_back(*axis);
  }
  if (axes.empty() && call.Int("noop_with_empty_axes", 0) == 0) {
    for (std::size_t i = 0; i < rank; ++i) out.push_back(static_cast<std::int64_t>(i));
  }
  return out;
}

Status Reduce(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  Builder& b = call.b;
  EBB_ASSIGN_OR_RETURN(const Dims axes, ReducedAxes(call, b.shape(x).size()));
  if (axes.empty()) return call.Set(0, x);
  const bool keep = call.Int("keepdims", 1) != 0;
  const std::string kind = kKinds.at(call.node.op);
  if (call.node.op == "ReduceSumSquare") x = op::Unary(b, "pow", x, {{"exponent", 2.0}});
  Dims shape;
  for (std::size_t i = 0; i < b.shape(x).size(); ++i) {
    const bool reduced = std::ranges::find(axes, static_cast<std::int64_t>(i)) != axes.end();
    if (!reduced) shape.push_back(b.shape(x)[i]);
    if (reduced && keep) shape.push_back(1);
  }
  TensorId out = b.CallOne(kind, {{"self", x}, {"dim", axes}, {"keepdim", keep}}, {shape, b.at(x).dtype});
  if (call.node.op == "ReduceLogSum") out = op::Unary(b, "log", out);
  return call.Set(0, out);
}

Status ArgReduce(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  Dims shape = call.b.shape(x);
  const auto axis = NormalAxis(call.Int("axis", 0), shape.size());
  if (!axis) return call.Wrong(fmt::format("axis: expected one of {}", ShapeText(shape)));
  const bool keep = call.Int("keepdims", 1) != 0;
  if (keep) shape[*axis] = 1;
  if (!keep) shape.erase(shape.begin() + *axis);
  return call.Set(
      0, call.b.CallOne(call.node.op == "ArgMax" ? "argmax" : "argmin",
                        {{"self", x}, {"dim", std::int64_t{*axis}}, {"keepdim", keep}}, {shape, DType::kInt64}));
}

Status CumSum(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  const auto place = call.Number(1);
  const bool whole = place && *place >= -64 && *place <= 64;
  const auto axis = whole ? NormalAxis(static_cast<std::int64_t>(*place), call.b.shape(x).size()) : std::nullopt;
  if (!axis) return call.Wrong(fmt::format("axis: expected a known one of {}", ShapeText(call.b.shape(x))));
  return call.Set(0, op::Unary(call.b, "cumsum", x, {{"dim", std::int64_t{*axis}}}));
}

constexpr OperatorRow kRules[] = {
    {"ReduceMean", 1, 2, Reduce},   {"ReduceSum", 1, 2, Reduce},       {"ReduceMax", 1, 2, Reduce},
    {"ReduceMin", 1, 2, Reduce},    {"ReduceProd", 1, 2, Reduce},      {"ReduceL1", 1, 2, Reduce},
    {"ReduceL2", 1, 2, Reduce},     {"ReduceLogSumExp", 1, 2, Reduce}, {"ReduceSumSquare", 1, 2, Reduce},
    {"ReduceLogSum", 1, 2, Reduce}, {"ArgMax", 1, 1, ArgReduce},       {"ArgMin", 1, 1, ArgReduce},
    {"CumSum", 2, 2, CumSum},
};

}  // namespace

std::span<const OperatorRow> ReductionRules() { return kRules; }

}  // namespace ebbtide::model::onnx
