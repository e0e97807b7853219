// Products and solves of the generic interface: kernels whose operands must fit each other. What the real library needs
// as a buffer is not published; products are given none, and solves one number for each row. Products of two sparse
// matrices are not modelled: the size of their result depends on content.
#include "phantom/cusparse/sparse.h"

using namespace ebbtide::phantom;

namespace {

struct Sides {
  std::int64_t rows, columns;
};

template <class Matrix>
Sides Apply(cusparseOperation_t operation, const Matrix& matrix) {
  if (operation == CUSPARSE_OPERATION_NON_TRANSPOSE) return {matrix.rows, matrix.columns};
  return {matrix.columns, matrix.rows};
}

bool Fit(const Sides& left, const Sides& right, const Sides& result) {
  return left.columns == right.rows && left.rows == result.rows && right.columns == result.columns;
}

cusparseStatus_t CheckSparseDense(cusparseOperation_t a_operation, cusparseOperation_t b_operation, const void* a,
                                  const void* b, const void* c) {
  auto left = SparseMatrices().Find(a);
  auto right = DenseMatrices().Find(b), result = DenseMatrices().Find(c);
  if (!left || !right || !result) return CUSPARSE_STATUS_INVALID_VALUE;
  bool fits = Fit(Apply(a_operation, *left), Apply(b_operation, *right), {result->rows, result->columns});
  return fits ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
}

cusparseStatus_t CheckSampled(cusparseOperation_t a_operation, cusparseOperation_t b_operation, const void* a,
                              const void* b, const void* c) {
  auto left = DenseMatrices().Find(a), right = DenseMatrices().Find(b);
  auto result = SparseMatrices().Find(c);
  if (!left || !right || !result) return CUSPARSE_STATUS_INVALID_VALUE;
  bool fits = Fit(Apply(a_operation, *left), Apply(b_operation, *right), {result->rows, result->columns});
  return fits ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
}

cusparseStatus_t CheckVector(cusparseOperation_t operation, const void* a, const void* x, const void* y) {
  auto matrix = SparseMatrices().Find(a);
  auto in = DenseVectors().Find(x), out = DenseVectors().Find(y);
  if (!matrix || !in || !out) return CUSPARSE_STATUS_INVALID_VALUE;
  Sides sides = Apply(operation, *matrix);
  bool fits = sides.columns == in->size && sides.rows == out->size;
  return fits ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
}

cusparseStatus_t Give(std::size_t bytes, std::size_t* out) {
  if (!out) return CUSPARSE_STATUS_INVALID_VALUE;
  *out = bytes;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t GiveForRows(const void* matrix, std::size_t* out) {
  auto found = SparseMatrices().Find(matrix);
  return found ? Give(static_cast<std::size_t>(found->rows) * sizeof(int), out) : CUSPARSE_STATUS_INVALID_VALUE;
}

// What a solve keeps between its analysis and itself.
struct Analysis {
  int unused = 0;
};

Handles<Analysis>& Analyses() {
  static auto* analyses = new Handles<Analysis>;
  return *analyses;
}

template <class Handle>
cusparseStatus_t CreateAnalysis(Handle* out) {
  if (!out) return CUSPARSE_STATUS_INVALID_VALUE;
  *out = reinterpret_cast<Handle>(Analyses().Create().get());
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t DestroyAnalysis(const void* analysis) {
  return Analyses().Remove(analysis) ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
}

}  // namespace

#define CHECK(condition) \
  if (cusparseStatus_t status = condition; status != CUSPARSE_STATUS_SUCCESS) return status
#define KNOWN(analysis) \
  if (!Analyses().Find(analysis)) return CUSPARSE_STATUS_INVALID_VALUE

cusparseStatus_t cusparseSpMV_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation, const void*,
                                         cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, const void*,
                                         cusparseDnVecDescr_t y, cudaDataType, cusparseSpMVAlg_t, size_t* bytes) {
  SPARSE_CALL("cusparseSpMV_bufferSize", handle, a, x, y);
  CHECK(CheckVector(operation, a, x, y));
  return Give(0, bytes);
}

cusparseStatus_t cusparseSpMV_preprocess(cusparseHandle_t handle, cusparseOperation_t operation, const void*,
                                         cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, const void*,
                                         cusparseDnVecDescr_t y, cudaDataType, cusparseSpMVAlg_t, void*) {
  SPARSE_CALL("cusparseSpMV_preprocess", handle, a, x, y);
  CHECK(CheckVector(operation, a, x, y));
  return FromCode(Launch("cusparseSpMV_preprocess", sparse->stream));
}

cusparseStatus_t cusparseSpMV(cusparseHandle_t handle, cusparseOperation_t operation, const void*,
                              cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, const void*,
                              cusparseDnVecDescr_t y, cudaDataType, cusparseSpMVAlg_t, void*) {
  SPARSE_CALL("cusparseSpMV", handle, a, x, y);
  CHECK(CheckVector(operation, a, x, y));
  return FromCode(Launch("cusparseSpMV", sparse->stream));
}

cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t handle, cusparseOperation_t a_operation,
                                         cusparseOperation_t b_operation, const void*, cusparseConstSpMatDescr_t a,
                                         cusparseConstDnMatDescr_t b, const void*, cusparseDnMatDescr_t c, cudaDataType,
                                         cusparseSpMMAlg_t, size_t* bytes) {
  SPARSE_CALL("cusparseSpMM_bufferSize", handle, a, b, c);
  CHECK(CheckSparseDense(a_operation, b_operation, a, b, c));
  return Give(0, bytes);
}

// The same shape for the product, and for what may be done before it.
#define SPARSE_DENSE(name)                                                                                         \
  cusparseStatus_t name(cusparseHandle_t handle, cusparseOperation_t a_operation, cusparseOperation_t b_operation, \
                        const void*, cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, const void*,        \
                        cusparseDnMatDescr_t c, cudaDataType, cusparseSpMMAlg_t, void*) {                          \
    SPARSE_CALL(#name, handle, a, b, c);                                                                           \
    CHECK(CheckSparseDense(a_operation, b_operation, a, b, c));                                                    \
    return FromCode(Launch(#name, sparse->stream));                                                                \
  }
SPARSE_DENSE(cusparseSpMM_preprocess)
SPARSE_DENSE(cusparseSpMM)

cusparseStatus_t cusparseSDDMM_bufferSize(cusparseHandle_t handle, cusparseOperation_t a_operation,
                                          cusparseOperation_t b_operation, const void*, cusparseConstDnMatDescr_t a,
                                          cusparseConstDnMatDescr_t b, const void*, cusparseSpMatDescr_t c,
                                          cudaDataType, cusparseSDDMMAlg_t, size_t* bytes) {
  SPARSE_CALL("cusparseSDDMM_bufferSize", handle, a, b, c);
  CHECK(CheckSampled(a_operation, b_operation, a, b, c));
  return Give(0, bytes);
}

#define SAMPLED(name)                                                                                              \
  cusparseStatus_t name(cusparseHandle_t handle, cusparseOperation_t a_operation, cusparseOperation_t b_operation, \
                        const void*, cusparseConstDnMatDescr_t a, cusparseConstDnMatDescr_t b, const void*,        \
                        cusparseSpMatDescr_t c, cudaDataType, cusparseSDDMMAlg_t, void*) {                         \
    SPARSE_CALL(#name, handle, a, b, c);                                                                           \
    CHECK(CheckSampled(a_operation, b_operation, a, b, c));                                                        \
    return FromCode(Launch(#name, sparse->stream));                                                                \
  }
SAMPLED(cusparseSDDMM_preprocess)
SAMPLED(cusparseSDDMM)

#define ANALYSIS(prefix, Handle)                            \
  cusparseStatus_t prefix##_createDescr(Handle* out) {      \
    EBB_PHANTOM_CALL(FromCode, #prefix "_createDescr");     \
    return CreateAnalysis(out);                             \
  }                                                         \
  cusparseStatus_t prefix##_destroyDescr(Handle analysis) { \
    EBB_PHANTOM_CALL(FromCode, #prefix "_destroyDescr");    \
    return DestroyAnalysis(analysis);                       \
  }
ANALYSIS(cusparseSpSV, cusparseSpSVDescr_t)
ANALYSIS(cusparseSpSM, cusparseSpSMDescr_t)

cusparseStatus_t cusparseSpSV_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation, const void*,
                                         cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x,
                                         cusparseDnVecDescr_t y, cudaDataType, cusparseSpSVAlg_t,
                                         cusparseSpSVDescr_t analysis, size_t* bytes) {
  SPARSE_CALL("cusparseSpSV_bufferSize", handle, a, x, y);
  KNOWN(analysis);
  CHECK(CheckVector(operation, a, y, x));
  return GiveForRows(a, bytes);
}

cusparseStatus_t cusparseSpSV_analysis(cusparseHandle_t handle, cusparseOperation_t operation, const void*,
                                       cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y,
                                       cudaDataType, cusparseSpSVAlg_t, cusparseSpSVDescr_t analysis, void*) {
  SPARSE_CALL("cusparseSpSV_analysis", handle, a, x, y);
  KNOWN(analysis);
  CHECK(CheckVector(operation, a, y, x));
  return FromCode(Launch("cusparseSpSV_analysis", sparse->stream));
}

cusparseStatus_t cusparseSpSV_solve(cusparseHandle_t handle, cusparseOperation_t operation, const void*,
                                    cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y,
                                    cudaDataType, cusparseSpSVAlg_t, cusparseSpSVDescr_t analysis) {
  SPARSE_CALL("cusparseSpSV_solve", handle, a, x, y);
  KNOWN(analysis);
  CHECK(CheckVector(operation, a, y, x));
  return FromCode(Launch("cusparseSpSV_solve", sparse->stream));
}

// C = inverse(op(A)) op(B), so that op(B) = op(A) C.
cusparseStatus_t cusparseSpSM_bufferSize(cusparseHandle_t handle, cusparseOperation_t a_operation,
                                         cusparseOperation_t b_operation, const void*, cusparseConstSpMatDescr_t a,
                                         cusparseConstDnMatDescr_t b, cusparseDnMatDescr_t c, cudaDataType,
                                         cusparseSpSMAlg_t, cusparseSpSMDescr_t analysis, size_t* bytes) {
  SPARSE_CALL("cusparseSpSM_bufferSize", handle, a, b, c);
  KNOWN(analysis);
  CHECK(CheckSparseDense(a_operation, b_operation, a, b, c));  // a square matrix: the sides agree either way
  return GiveForRows(a, bytes);
}

cusparseStatus_t cusparseSpSM_analysis(cusparseHandle_t handle, cusparseOperation_t a_operation,
                                       cusparseOperation_t b_operation, const void*, cusparseConstSpMatDescr_t a,
                                       cusparseConstDnMatDescr_t b, cusparseDnMatDescr_t c, cudaDataType,
                                       cusparseSpSMAlg_t, cusparseSpSMDescr_t analysis, void*) {
  SPARSE_CALL("cusparseSpSM_analysis", handle, a, b, c);
  KNOWN(analysis);
  CHECK(CheckSparseDense(a_operation, b_operation, a, b, c));
  return FromCode(Launch("cusparseSpSM_analysis", sparse->stream));
}

cusparseStatus_t cusparseSpSM_solve(cusparseHandle_t handle, cusparseOperation_t a_operation,
                                    cusparseOperation_t b_operation, const void*, cusparseConstSpMatDescr_t a,
                                    cusparseConstDnMatDescr_t b, cusparseDnMatDescr_t c, cudaDataType,
                                    cusparseSpSMAlg_t, cusparseSpSMDescr_t analysis) {
  SPARSE_CALL("cusparseSpSM_solve", handle, a, b, c);
  KNOWN(analysis);
  CHECK(CheckSparseDense(a_operation, b_operation, a, b, c));
  return FromCode(Launch("cusparseSpSM_solve", sparse->stream));
}

// Sorting by key: a second copy of keys and permutation, as a radix sort takes.
#define SORT_SIZE(name)                                                                                               \
  cusparseStatus_t name(cusparseHandle_t handle, int m, int n, int nonzeros, const int*, const int*, size_t* bytes) { \
    SPARSE_CALL(#name, handle, m, n, nonzeros);                                                                       \
    if (m < 0 || n < 0 || nonzeros < 0) return CUSPARSE_STATUS_INVALID_VALUE;                                         \
    return Give(static_cast<std::size_t>(nonzeros) * 2 * sizeof(int), bytes);                                         \
  }
SORT_SIZE(cusparseXcoosort_bufferSizeExt)
SORT_SIZE(cusparseXcsrsort_bufferSizeExt)
