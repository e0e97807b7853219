// Matrix products: MatMul, Gemm and linear layers.
#include "model/onnx/lower.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

tl::unexpected<Error> Mismatch(const Call& call, const Dims& x, const Dims& y) {
  return call.Wrong(fmt::format("{} and {}: expected matrices that multiply", ShapeText(x), ShapeText(y)));
}

Status MatMul(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(TensorId y, call.Tensor(1));
  Builder& b = call.b;
  const Dims left = b.shape(x), right = b.shape(y);
  if (left.empty() || right.empty()) return Mismatch(call, left, right);
  // A vector is a row on the left and a column on the right.
  if (left.size() == 1) x = op::Unsqueeze(b, x, 0);
  if (right.size() == 1) y = op::Unsqueeze(b, y, 1);
  const Dims rows = b.shape(x), columns = b.shape(y);
  const bool batches_fit =
      Broadcast(Dims(rows.begin(), rows.end() - 2), Dims(columns.begin(), columns.end() - 2)).has_value();
  if (rows.back() != columns[columns.size() - 2] || !batches_fit) return Mismatch(call, left, right);
  TensorId product = op::Matmul(b, x, y);
  if (right.size() == 1) product = op::Squeeze(b, product, -1);
  if (left.size() == 1) product = op::Squeeze(b, product, right.size() == 1 ? -1 : -2);
  return call.Set(0, product);
}

Status Gemm(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(TensorId y, call.Tensor(1));
  Builder& b = call.b;
  if (b.shape(x).size() != 2 || b.shape(y).size() != 2) return Mismatch(call, b.shape(x), b.shape(y));
  if (call.Int("transA", 0) != 0) x = op::T(b, x);
  if (call.Int("transB", 0) != 0) y = op::T(b, y);
  if (b.dim(x, 1) != b.dim(y, 0)) return Mismatch(call, b.shape(x), b.shape(y));
  if (!call.Has(2)) return call.Set(0, op::Mm(b, x, y));
  EBB_ASSIGN_OR_RETURN(TensorId bias, call.Tensor(2));
  const Dims out = {b.dim(x, 0), b.dim(y, 1)};
  if (Broadcast(b.shape(bias), out) != out) {
    return call.Wrong(
        fmt::format("input 2 {}: expected one that broadcasts to {}", ShapeText(b.shape(bias)), ShapeText(out)));
  }
  return call.Set(0, op::Addmm(b, bias, x, y));
}

// Made by patterns/linear.cc: x, weight [out, in] (or turned: [in, out]), bias.
Status Linear(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(TensorId weight, call.Tensor(1));
  EBB_ASSIGN_OR_RETURN(TensorId bias, call.Tensor(2));
  Builder& b = call.b;
  if (b.shape(weight).size() != 2 || b.shape(x).empty()) return Mismatch(call, b.shape(x), b.shape(weight));
  if (call.Int("turned", 0) != 0) weight = op::T(b, weight);
  if (b.dim(x, -1) != b.dim(weight, 1) || b.shape(bias) != Dims{b.dim(weight, 0)}) {
    return Mismatch(call, b.shape(x), b.shape(weight));
  }
  if (b.shape(x).size() == 1) {
    TensorId row = op::Linear(b, op::Unsqueeze(b, x, 0), weight, bias);
    return call.Set(0, op::Squeeze(b, row, 0));
  }
  return call.Set(0, op::Linear(b, x, weight, bias));
}

constexpr OperatorRow kRules[] = {{"MatMul", 2, 2, MatMul}, {"Gemm", 2, 3, Gemm}, {"ebbtide.Linear", 3, 3, Linear}};

}  // namespace

std::span<const OperatorRow> MatrixRules() { return kRules; }

}  // namespace ebbtide::model::onnx
