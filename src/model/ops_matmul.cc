// Matrix products, down to the mm, bmm and addmm that torch.matmul and nn.functional.linear call.
#include <cassert>

#include "model/autocast_rules.h"
#include "model/ops.h"

namespace ebbtide::model::op {

TensorId Mm(Builder& b, TensorId x, TensorId y) {
  Autocast(b, "mm", {&x, &y});
  assert(b.dim(x, 1) == b.dim(y, 0));
  return b.CallOne("mm", {{"self", x}, {"mat2", y}}, {{b.dim(x, 0), b.dim(y, 1)}, b.at(x).dtype});
}

TensorId Bmm(Builder& b, TensorId x, TensorId y) {
  Autocast(b, "bmm", {&x, &y});
  assert(b.dim(x, 0) == b.dim(y, 0) && b.dim(x, 2) == b.dim(y, 1));
  return b.CallOne("bmm", {{"self", x}, {"mat2", y}}, {{b.dim(x, 0), b.dim(x, 1), b.dim(y, 2)}, b.at(x).dtype});
}

TensorId Addmm(Builder& b, TensorId bias, TensorId x, TensorId y) {
  Autocast(b, "addmm", {&bias, &x, &y});
  assert(b.dim(x, 1) == b.dim(y, 0));
  return b.CallOne("addmm", {{"self", bias}, {"mat1", x}, {"mat2", y}}, {{b.dim(x, 0), b.dim(y, 1)}, b.at(x).dtype});
}

TensorId Linear(Builder& b, TensorId x, TensorId weight, TensorId bias) {
  Autocast(b, "linear", {&x, &weight, &bias});
  Dims shape = b.shape(x);
  shape.back() = b.dim(weight, 0);
  if (!bias.valid()) return Matmul(b, x, T(b, weight));
  // A dense input is folded to a matrix so that the bias can go into the product; otherwise it is added after.
  if (shape.size() == 2) return Addmm(b, bias, x, T(b, weight));
  if (!IsContiguous(b.at(x))) return BinaryInPlace(b, "add_", Matmul(b, x, T(b, weight)), bias);
  TensorId rows = Reshape(b, x, {-1, b.dim(x, -1)});
  return Reshape(b, Addmm(b, bias, rows, T(b, weight)), shape);
}

TensorId Matmul(Builder& b, TensorId x, TensorId y) {
  Autocast(b, "matmul", {&x, &y});
  const Dims left = b.shape(x), right = b.shape(y);
  if (left.size() == 2 && right.size() == 2) return Mm(b, x, y);
  if (right.size() == 2) {  // all leading axes of x are rows
    Dims shape = left;
    shape.back() = right[1];
    return Reshape(b, Mm(b, Reshape(b, x, {-1, left.back()}), y), shape);
  }
  Dims batch = BroadcastShape(Dims(left.begin(), left.end() - 2), Dims(right.begin(), right.end() - 2));
  auto batched = [&](TensorId operand) {
    Dims matrix(b.shape(operand).end() - 2, b.shape(operand).end());
    Dims full = batch;
    full.insert(full.end(), matrix.begin(), matrix.end());
    return Reshape(b, Expand(b, operand, full), {ElementCount(batch), matrix[0], matrix[1]});
  };
  TensorId product_left = batched(x);
  TensorId product = Bmm(b, product_left, batched(y));
  batch.push_back(left[left.size() - 2]);
  batch.push_back(right.back());
  return Reshape(b, product, batch);
}

}  // namespace ebbtide::model::op
