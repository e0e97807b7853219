// Matrices and vectors of the generic interface.
#include "phantom/cusparse/sparse.h"

using namespace ebbtide::phantom;

namespace {

template <class Handle, class T>
cusparseStatus_t Keep(Handles<T>& handles, Handle* out, const T& value) {
  *out = reinterpret_cast<Handle>(handles.Create(value).get());
  return CUSPARSE_STATUS_SUCCESS;
}

template <class Handle>
cusparseStatus_t CreateSparse(Handle* out, const SparseMatrix& matrix) {
  if (!out || matrix.rows < 0 || matrix.columns < 0 || matrix.nonzeros < 0) return CUSPARSE_STATUS_INVALID_VALUE;
  return Keep(SparseMatrices(), out, matrix);
}

template <class Handle>
cusparseStatus_t CreateDense(Handle* out, const DenseMatrix& matrix) {
  if (!out || matrix.rows < 0 || matrix.columns < 0) return CUSPARSE_STATUS_INVALID_VALUE;
  if (matrix.leading < (matrix.order == CUSPARSE_ORDER_COL ? matrix.rows : matrix.columns))
    return CUSPARSE_STATUS_INVALID_VALUE;
  return Keep(DenseMatrices(), out, matrix);
}

template <class Handle>
cusparseStatus_t CreateVector(Handle* out, const DenseVector& vector) {
  return out && vector.size >= 0 ? Keep(DenseVectors(), out, vector) : CUSPARSE_STATUS_INVALID_VALUE;
}

}  // namespace

namespace ebbtide::phantom {

Handles<SparseMatrix>& SparseMatrices() {
  static auto* matrices = new Handles<SparseMatrix>;
  return *matrices;
}

Handles<DenseMatrix>& DenseMatrices() {
  static auto* matrices = new Handles<DenseMatrix>;
  return *matrices;
}

Handles<DenseVector>& DenseVectors() {
  static auto* vectors = new Handles<DenseVector>;
  return *vectors;
}

}  // namespace ebbtide::phantom

// Each comes with content that may be written and with content that may not: `Const` in the names, C in the types.
#define CREATE_COO(Const, C)                                                                                          \
  cusparseStatus_t cusparseCreate##Const##Coo(cusparse##Const##SpMatDescr_t* out, int64_t rows, int64_t columns,      \
                                              int64_t nonzeros, C void* row_indices, C void* indices, C void* values, \
                                              cusparseIndexType_t, cusparseIndexBase_t, cudaDataType type) {          \
    EBB_PHANTOM_CALL(FromCode, "cusparseCreate" #Const "Coo", rows, columns, nonzeros);                               \
    return CreateSparse(out, {SparseFormat::kCoo, rows, columns, nonzeros, row_indices, indices, values, type});      \
  }
#define CREATE_COMPRESSED(Const, C, Kind)                                                                          \
  cusparseStatus_t cusparseCreate##Const##Kind(cusparse##Const##SpMatDescr_t* out, int64_t rows, int64_t columns,  \
                                               int64_t nonzeros, C void* offsets, C void* indices, C void* values, \
                                               cusparseIndexType_t, cusparseIndexType_t, cusparseIndexBase_t,      \
                                               cudaDataType type) {                                                \
    EBB_PHANTOM_CALL(FromCode, "cusparseCreate" #Const #Kind, rows, columns, nonzeros);                            \
    return CreateSparse(out, {SparseFormat::k##Kind, rows, columns, nonzeros, offsets, indices, values, type});    \
  }
#define CREATE_DENSE(Const, C)                                                                                     \
  cusparseStatus_t cusparseCreate##Const##DnMat(cusparse##Const##DnMatDescr_t* out, int64_t rows, int64_t columns, \
                                                int64_t leading, C void* values, cudaDataType type,                \
                                                cusparseOrder_t order) {                                           \
    EBB_PHANTOM_CALL(FromCode, "cusparseCreate" #Const "DnMat", rows, columns, leading);                           \
    return CreateDense(out, {rows, columns, leading, values, type, order});                                        \
  }                                                                                                                \
  cusparseStatus_t cusparseCreate##Const##DnVec(cusparse##Const##DnVecDescr_t* out, int64_t size, C void* values,  \
                                                cudaDataType type) {                                               \
    EBB_PHANTOM_CALL(FromCode, "cusparseCreate" #Const "DnVec", size);                                             \
    return CreateVector(out, {size, values, type});                                                                \
  }
CREATE_COO(, )
CREATE_COO(Const, const)
CREATE_COMPRESSED(, , Csr)
CREATE_COMPRESSED(Const, const, Csr)
CREATE_COMPRESSED(, , Csc)
CREATE_COMPRESSED(Const, const, Csc)
CREATE_DENSE(, )
CREATE_DENSE(Const, const)

#define DESTROY(Name, Handle, handles)                                                             \
  cusparseStatus_t cusparseDestroy##Name(Handle descriptor) {                                      \
    EBB_PHANTOM_CALL(FromCode, "cusparseDestroy" #Name, descriptor);                               \
    return handles().Remove(descriptor) ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE; \
  }
DESTROY(SpMat, cusparseConstSpMatDescr_t, SparseMatrices)
DESTROY(DnMat, cusparseConstDnMatDescr_t, DenseMatrices)
DESTROY(DnVec, cusparseConstDnVecDescr_t, DenseVectors)

#define FIND(variable, handles, descriptor)   \
  auto variable = handles().Find(descriptor); \
  if (!variable) return CUSPARSE_STATUS_INVALID_VALUE

cusparseStatus_t cusparseSpMatGetSize(cusparseConstSpMatDescr_t descriptor, int64_t* rows, int64_t* columns,
                                      int64_t* nonzeros) {
  EBB_PHANTOM_CALL(FromCode, "cusparseSpMatGetSize", descriptor);
  FIND(matrix, SparseMatrices, descriptor);
  if (!rows || !columns || !nonzeros) return CUSPARSE_STATUS_INVALID_VALUE;
  *rows = matrix->rows;
  *columns = matrix->columns;
  *nonzeros = matrix->nonzeros;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCsrSetPointers(cusparseSpMatDescr_t descriptor, void* offsets, void* indices, void* values) {
  EBB_PHANTOM_CALL(FromCode, "cusparseCsrSetPointers", descriptor);
  FIND(matrix, SparseMatrices, descriptor);
  if (matrix->format != SparseFormat::kCsr) return CUSPARSE_STATUS_INVALID_VALUE;
  matrix->offsets = offsets;
  matrix->indices = indices;
  matrix->values = values;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCsrSetStridedBatch(cusparseSpMatDescr_t descriptor, int batch, int64_t, int64_t) {
  EBB_PHANTOM_CALL(FromCode, "cusparseCsrSetStridedBatch", descriptor, batch);
  FIND(matrix, SparseMatrices, descriptor);
  if (matrix->format != SparseFormat::kCsr || batch < 1) return CUSPARSE_STATUS_INVALID_VALUE;
  matrix->batch = batch;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDnMatSetStridedBatch(cusparseDnMatDescr_t descriptor, int batch, int64_t) {
  EBB_PHANTOM_CALL(FromCode, "cusparseDnMatSetStridedBatch", descriptor, batch);
  FIND(matrix, DenseMatrices, descriptor);
  if (batch < 1) return CUSPARSE_STATUS_INVALID_VALUE;
  matrix->batch = batch;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpMatSetAttribute(cusparseSpMatDescr_t descriptor, cusparseSpMatAttribute_t attribute,
                                           void* data, size_t bytes) {
  EBB_PHANTOM_CALL(FromCode, "cusparseSpMatSetAttribute", descriptor, attribute);
  FIND(matrix, SparseMatrices, descriptor);
  if (!data || bytes != sizeof(int)) return CUSPARSE_STATUS_INVALID_VALUE;
  if (attribute == CUSPARSE_SPMAT_FILL_MODE)
    matrix->fill_mode = *static_cast<cusparseFillMode_t*>(data);
  else if (attribute == CUSPARSE_SPMAT_DIAG_TYPE)
    matrix->diagonal = *static_cast<cusparseDiagType_t*>(data);
  else
    return CUSPARSE_STATUS_INVALID_VALUE;
  return CUSPARSE_STATUS_SUCCESS;
}
