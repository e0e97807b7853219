// Batched factorizations and solves that tell the host at once whether their arguments were right. How the matrices
// were is written to the device, and there skipped: all zeros, which stands for success.
#include <algorithm>

#include "phantom/cublas/blas.h"

using namespace ebbtide::phantom;

namespace {

// `wrong`: the number of the first wrong argument, as LAPACK counts them; 0: none.
cublasStatus_t Solve(const char* name, const Blas& blas, int wrong, int batch, int* info) {
  if (!info || batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
  *info = -wrong;
  if (wrong != 0) return CUBLAS_STATUS_INVALID_VALUE;
  return batch == 0 ? CUBLAS_STATUS_SUCCESS : FromCode(Launch(name, blas.stream));
}

int WrongForQr(int m, int n, int lda) { return m < 0 ? 1 : n < 0 ? 2 : lda < std::max(1, m) ? 4 : 0; }

int WrongForLuSolve(int n, int right_sides, int lda, int ldb) {
  return n < 0 ? 2 : right_sides < 0 ? 3 : lda < std::max(1, n) ? 5 : ldb < std::max(1, n) ? 8 : 0;
}

int WrongForLeastSquares(int m, int n, int right_sides, int lda, int ldc) {
  return m < 0 ? 2 : n < 0 ? 3 : right_sides < 0 ? 4 : lda < std::max(1, m) ? 6 : ldc < std::max(1, m) ? 8 : 0;
}

}  // namespace

#define SOLVES(P, T)                                                                                                \
  cublasStatus_t cublas##P##geqrfBatched(cublasHandle_t handle, int m, int n, T* const[], int lda, T* const[],      \
                                         int* info, int batch) {                                                    \
    BLAS_CALL("cublas" #P "geqrfBatched", handle, m, n, batch);                                                     \
    return Solve("cublas" #P "geqrfBatched", *blas, WrongForQr(m, n, lda), batch, info);                            \
  }                                                                                                                 \
  cublasStatus_t cublas##P##getrsBatched(cublasHandle_t handle, cublasOperation_t, int n, int right_sides,          \
                                         const T* const[], int lda, const int*, T* const[], int ldb, int* info,     \
                                         int batch) {                                                               \
    BLAS_CALL("cublas" #P "getrsBatched", handle, n, right_sides, batch);                                           \
    return Solve("cublas" #P "getrsBatched", *blas, WrongForLuSolve(n, right_sides, lda, ldb), batch, info);        \
  }                                                                                                                 \
  cublasStatus_t cublas##P##gelsBatched(cublasHandle_t handle, cublasOperation_t, int m, int n, int right_sides,    \
                                        T* const[], int lda, T* const[], int ldc, int* info, int*, int batch) {     \
    BLAS_CALL("cublas" #P "gelsBatched", handle, m, n, right_sides, batch);                                         \
    return Solve("cublas" #P "gelsBatched", *blas, WrongForLeastSquares(m, n, right_sides, lda, ldc), batch, info); \
  }

SOLVES(S, float)
SOLVES(D, double)
SOLVES(C, cuComplex)
SOLVES(Z, cuDoubleComplex)
