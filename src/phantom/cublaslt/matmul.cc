// Products and transformations: kernels whose descriptors are checked against each other.
#include "phantom/cublaslt/algorithm.h"

using namespace ebbtide::phantom;

namespace {

struct Layout {
  explicit Layout(const void* descriptor)
      : rows(Value(descriptor, CUBLASLT_MATRIX_LAYOUT_ROWS)),
        columns(Value(descriptor, CUBLASLT_MATRIX_LAYOUT_COLS)),
        leading(Value(descriptor, CUBLASLT_MATRIX_LAYOUT_LD)),
        order(Value(descriptor, CUBLASLT_MATRIX_LAYOUT_ORDER)),
        batch(Value(descriptor, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)) {}

  static std::int64_t Value(const void* descriptor, int id) { return LtValue(kLayoutKind, descriptor, id); }

  bool IsValid() const {
    if (rows < 0 || columns < 0 || batch < 0) return false;
    if (order == CUBLASLT_ORDER_COL) return leading >= rows;
    if (order == CUBLASLT_ORDER_ROW) return leading >= columns;
    return true;  // the tiled orders have rules of their own
  }
  void Transpose() { std::swap(rows, columns); }

  std::int64_t rows, columns, leading, order, batch;
};

ProductType TypeOf(std::int64_t data, std::int64_t compute) {
  switch (data) {
    case CUDA_R_16F: return ProductType::kFloat16;
    case CUDA_R_16BF: return ProductType::kBFloat16;
    case CUDA_R_64F: return ProductType::kFloat64;
    case CUDA_R_32F: return compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? ProductType::kTf32 : ProductType::kFloat32;
    default: return ProductType::kInt8;  // and the types of 8 bits and fewer, which are at least as fast
  }
}

bool IsTransposed(cublasLtMatmulDesc_t operation, int id) { return LtValue(kMatmulKind, operation, id) != CUBLAS_OP_N; }

}  // namespace

namespace ebbtide::phantom {

cublasStatus_t LtRead(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                      cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, LtProduct& out) {
  if (!LtIs(kMatmulKind, operation) || !LtIs(kLayoutKind, a) || !LtIs(kLayoutKind, b) || !LtIs(kLayoutKind, c) ||
      !LtIs(kLayoutKind, d))
    return CUBLAS_STATUS_INVALID_VALUE;
  Layout left(a), right(b), added(c), result(d);
  if (!left.IsValid() || !right.IsValid() || !added.IsValid() || !result.IsValid()) return CUBLAS_STATUS_INVALID_VALUE;
  if (IsTransposed(operation, CUBLASLT_MATMUL_DESC_TRANSA)) left.Transpose();
  if (IsTransposed(operation, CUBLASLT_MATMUL_DESC_TRANSB)) right.Transpose();
  bool fits = left.columns == right.rows && left.rows == result.rows && right.columns == result.columns &&
              added.rows == result.rows && added.columns == result.columns;
  if (!fits || added.batch != result.batch || left.batch != result.batch || right.batch != result.batch)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::int64_t compute = LtValue(kMatmulKind, operation, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE);
  bool is_double = compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC;
  out = {result.rows,  result.columns,    left.columns,
         result.batch, is_double ? 8 : 4, TypeOf(Layout::Value(a, CUBLASLT_MATRIX_LAYOUT_TYPE), compute)};
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace ebbtide::phantom

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void*, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtMatmul", handle, operation, a, b, d, workspace, workspace_bytes, stream);
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  LtProduct product;
  if (cublasStatus_t status = LtRead(operation, a_layout, b_layout, c_layout, d_layout, product);
      status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (product.m > 0 && product.n > 0 && (!d || (product.k > 0 && (!a || !b)))) return CUBLAS_STATUS_INVALID_VALUE;
  if (algorithm) {
    if (!LtIsAlgorithm(*algorithm)) return CUBLAS_STATUS_INVALID_VALUE;
    auto needed = static_cast<std::size_t>(LtWorkspace(product, *algorithm));
    if (needed > workspace_bytes || (needed > 0 && !workspace)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (reinterpret_cast<std::uintptr_t>(workspace) % 16 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  return FromCode(
      Launch("cublasLtMatmul", stream, TimeOfProduct(product.batch, product.m, product.n, product.k, product.type)));
}

cublasStatus_t cublasLtMatrixTransform(cublasLtHandle_t handle, cublasLtMatrixTransformDesc_t transform, const void*,
                                       const void* a, cublasLtMatrixLayout_t a_layout, const void*, const void* b,
                                       cublasLtMatrixLayout_t b_layout, void* c, cublasLtMatrixLayout_t c_layout,
                                       cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtMatrixTransform", handle, transform, a, b, c, stream);
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!LtIs(kTransformKind, transform) || !LtIs(kLayoutKind, c_layout) || !c) return CUBLAS_STATUS_INVALID_VALUE;
  if ((a_layout && !LtIs(kLayoutKind, a_layout)) || (b_layout && !LtIs(kLayoutKind, b_layout)))
    return CUBLAS_STATUS_INVALID_VALUE;
  return FromCode(Launch("cublasLtMatrixTransform", stream));
}
