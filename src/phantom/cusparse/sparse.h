// Inside libcusparse: handles, and the descriptors of the generic interface. The header of CUDA 13 serves both
// generations; of what is modelled, CUDA 12.4 differs in nothing but the number of its version.
#pragma once

#pragma GCC visibility push(default)
#include <cusparse.h>
#pragma GCC visibility pop

#include <cstdint>
#include <memory>

#include "phantom/core/api.h"

namespace ebbtide::phantom {

struct Sparse {
  void* stream = nullptr;
  cusparsePointerMode_t pointer_mode = CUSPARSE_POINTER_MODE_HOST;
};

enum class SparseFormat { kCoo, kCsr, kCsc };

struct SparseMatrix {
  SparseFormat format = SparseFormat::kCsr;
  std::int64_t rows = 0, columns = 0, nonzeros = 0;
  const void *offsets = nullptr, *indices = nullptr, *values = nullptr;
  cudaDataType type = CUDA_R_32F;
  int batch = 1;
  cusparseFillMode_t fill_mode = CUSPARSE_FILL_MODE_LOWER;
  cusparseDiagType_t diagonal = CUSPARSE_DIAG_TYPE_NON_UNIT;
};

struct DenseMatrix {
  std::int64_t rows = 0, columns = 0, leading = 0;
  const void* values = nullptr;
  cudaDataType type = CUDA_R_32F;
  cusparseOrder_t order = CUSPARSE_ORDER_COL;
  int batch = 1;
};

struct DenseVector {
  std::int64_t size = 0;
  const void* values = nullptr;
  cudaDataType type = CUDA_R_32F;
};

Handles<Sparse>& SparseHandles();
Handles<SparseMatrix>& SparseMatrices();
Handles<DenseMatrix>& DenseMatrices();
Handles<DenseVector>& DenseVectors();

cusparseStatus_t FromCode(Code code);

}  // namespace ebbtide::phantom

// Counts the call and declares `sparse`, what the handle stands for, or ends the call.
#define SPARSE_CALL(name, handle, ...)                                                                   \
  EBB_PHANTOM_CALL(::ebbtide::phantom::FromCode, name, handle __VA_OPT__(, ) __VA_ARGS__);               \
  std::shared_ptr<::ebbtide::phantom::Sparse> sparse = ::ebbtide::phantom::SparseHandles().Find(handle); \
  if (!sparse) return CUSPARSE_STATUS_NOT_INITIALIZED
