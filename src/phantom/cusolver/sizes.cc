// The functions that ask for the size of a workspace.
#include <limits>

#include "phantom/cusolver/solver.h"
#include "phantom/cusolver/workspace.h"

using namespace ebbtide::phantom;

namespace {

constexpr std::int64_t kLargestSide = 1 << 30;  // products of two of them and a few more do not overflow

cusolverStatus_t Give(std::int64_t elements, int* out) {
  if (!out || elements > std::numeric_limits<int>::max()) return CUSOLVER_STATUS_INVALID_VALUE;
  *out = static_cast<int>(elements);
  return CUSOLVER_STATUS_SUCCESS;
}

bool IsMatrix(std::int64_t rows, std::int64_t columns, std::int64_t leading) {
  return rows >= 0 && columns >= 0 && rows <= kLargestSide && columns <= kLargestSide &&
         leading >= std::max<std::int64_t>(1, rows);
}

cusolverStatus_t GiveForBatch(std::int64_t elements, std::int64_t batch, int* out) {
  if (batch < 0 || __builtin_mul_overflow(elements, batch, &elements)) return CUSOLVER_STATUS_INVALID_VALUE;
  return Give(elements, out);
}

}  // namespace

#define WITH_MATRIX(name, rows, columns, leading)    \
  SOLVER_CALL(name, handle, rows, columns, leading); \
  if (!IsMatrix(rows, columns, leading)) return CUSOLVER_STATUS_INVALID_VALUE

// P: the letter of the type T, whose real part is R; OR and SY: how names differ between real and complex ones.
#define SIZES(P, T, R, OR, SY)                                                                                         \
  cusolverStatus_t cusolverDn##P##geqrf_bufferSize(cusolverDnHandle_t handle, int m, int n, T*, int lda, int* out) {   \
    WITH_MATRIX("cusolverDn" #P "geqrf_bufferSize", m, n, lda);                                                        \
    return Give(BlockWork(n), out);                                                                                    \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##P##getrf_bufferSize(cusolverDnHandle_t handle, int m, int n, T*, int lda, int* out) {   \
    WITH_MATRIX("cusolverDn" #P "getrf_bufferSize", m, n, lda);                                                        \
    return Give(BlockWork(n), out);                                                                                    \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##P##potrf_bufferSize(cusolverDnHandle_t handle, cublasFillMode_t, int n, T*, int lda,    \
                                                   int* out) {                                                         \
    WITH_MATRIX("cusolverDn" #P "potrf_bufferSize", n, n, lda);                                                        \
    return Give(BlockWork(n), out);                                                                                    \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##P##sytrf_bufferSize(cusolverDnHandle_t handle, int n, T*, int lda, int* out) {          \
    WITH_MATRIX("cusolverDn" #P "sytrf_bufferSize", n, n, lda);                                                        \
    return Give(BlockWork(n), out);                                                                                    \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##P##OR##gqr_bufferSize(cusolverDnHandle_t handle, int m, int n, int, const T*, int lda,  \
                                                     const T*, int* out) {                                             \
    WITH_MATRIX("cusolverDn" #P #OR "gqr_bufferSize", m, n, lda);                                                      \
    return Give(BlockWork(n), out);                                                                                    \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##P##OR##mqr_bufferSize(cusolverDnHandle_t handle, cublasSideMode_t side,                 \
                                                     cublasOperation_t, int m, int n, int, const T*, int, const T*,    \
                                                     const T*, int ldc, int* out) {                                    \
    WITH_MATRIX("cusolverDn" #P #OR "mqr_bufferSize", m, n, ldc);                                                      \
    return Give(BlockWork(side == CUBLAS_SIDE_LEFT ? n : m), out);                                                     \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##P##gesvd_bufferSize(cusolverDnHandle_t handle, int m, int n, int* out) {                \
    WITH_MATRIX("cusolverDn" #P "gesvd_bufferSize", m, n, std::max(1, m));                                             \
    return Give(SingularValueWork(m, n), out);                                                                         \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##P##gesvdj_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t, int, int m, int n,   \
                                                    const T*, int lda, const R*, const T*, int, const T*, int,         \
                                                    int* out, gesvdjInfo_t) {                                          \
    WITH_MATRIX("cusolverDn" #P "gesvdj_bufferSize", m, n, lda);                                                       \
    return Give(JacobiWork(m, n), out);                                                                                \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##P##gesvdjBatched_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t, int m, int n, \
                                                           const T*, int lda, const R*, const T*, int, const T*, int,  \
                                                           int* out, gesvdjInfo_t, int batch) {                        \
    WITH_MATRIX("cusolverDn" #P "gesvdjBatched_bufferSize", m, n, lda);                                                \
    return GiveForBatch(JacobiWork(m, n), batch, out);                                                                 \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##P##gesvdaStridedBatched_bufferSize(                                                     \
      cusolverDnHandle_t handle, cusolverEigMode_t, int, int m, int n, const T*, int lda, long long, const R*,         \
      long long, const T*, int, long long, const T*, int, long long, int* out, int batch) {                            \
    WITH_MATRIX("cusolverDn" #P "gesvdaStridedBatched_bufferSize", m, n, lda);                                         \
    return GiveForBatch(JacobiWork(m, n), batch, out);                                                                 \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##P##SY##evd_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t, cublasFillMode_t,   \
                                                     int n, const T*, int lda, const R*, int* out) {                   \
    WITH_MATRIX("cusolverDn" #P #SY "evd_bufferSize", n, n, lda);                                                      \
    return Give(EigenWork(n), out);                                                                                    \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##P##SY##evj_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t, cublasFillMode_t,   \
                                                     int n, const T*, int lda, const R*, int* out, syevjInfo_t) {      \
    WITH_MATRIX("cusolverDn" #P #SY "evj_bufferSize", n, n, lda);                                                      \
    return Give(JacobiWork(n, n), out);                                                                                \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##P##SY##evjBatched_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t,              \
                                                            cublasFillMode_t, int n, const T*, int lda, const R*,      \
                                                            int* out, syevjInfo_t, int batch) {                        \
    WITH_MATRIX("cusolverDn" #P #SY "evjBatched_bufferSize", n, n, lda);                                               \
    return GiveForBatch(JacobiWork(n, n), batch, out);                                                                 \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##P##gesvdaStridedBatched(                                                                \
      cusolverDnHandle_t handle, cusolverEigMode_t, int, int m, int n, const T*, int lda, long long, R*, long long,    \
      T*, int, long long, T*, int, long long, T*, int, int*, double* residuals, int batch) {                           \
    WITH_MATRIX("cusolverDn" #P "gesvdaStridedBatched", m, n, lda);                                                    \
    Code code = Launch("cusolverDn" #P "gesvdaStridedBatched", solver->stream);                                        \
    if (code == Code::kSuccess && residuals && batch > 0)                                                              \
      code = GiveZeros(solver->stream, residuals, batch * static_cast<ebbtide::Bytes>(sizeof(double)));                \
    return FromCode(code);                                                                                             \
  }

SIZES(S, float, float, or, sy)
SIZES(D, double, double, or, sy)
SIZES(C, cuComplex, float, un, he)
SIZES(Z, cuDoubleComplex, double, un, he)
