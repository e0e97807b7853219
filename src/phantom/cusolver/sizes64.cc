// The functions with 64-bit sizes and types as arguments that ask for the size of a workspace, in bytes on the device
// and on the host. None is needed on the host.
#include "phantom/cusolver/solver.h"
#include "phantom/cusolver/workspace.h"

using namespace ebbtide::phantom;
using ebbtide::Bytes;

namespace {

constexpr std::int64_t kLargestSide = 1 << 30;

Bytes SizeOf(cudaDataType type) {
  switch (type) {
    case CUDA_R_32F: return 4;
    case CUDA_R_64F:
    case CUDA_C_32F: return 8;
    case CUDA_C_64F: return 16;
    default: return 0;
  }
}

bool IsMatrix(std::int64_t rows, std::int64_t columns, std::int64_t leading) {
  return rows >= 0 && columns >= 0 && rows <= kLargestSide && columns <= kLargestSide &&
         leading >= std::max<std::int64_t>(1, rows);
}

cusolverStatus_t Give(std::int64_t elements, cudaDataType type, std::int64_t batch, std::size_t* on_device,
                      std::size_t* on_host) {
  Bytes bytes = SizeOf(type);
  if (bytes == 0 || !on_device || !on_host || batch < 0) return CUSOLVER_STATUS_INVALID_VALUE;
  if (__builtin_mul_overflow(bytes, elements, &bytes) || __builtin_mul_overflow(bytes, batch, &bytes))
    return CUSOLVER_STATUS_INVALID_VALUE;
  *on_device = static_cast<std::size_t>(bytes);
  *on_host = 0;
  return CUSOLVER_STATUS_SUCCESS;
}

}  // namespace

#define WITH_MATRIX(name, rows, columns, leading)    \
  SOLVER_CALL(name, handle, rows, columns, leading); \
  if (!IsMatrix(rows, columns, leading)) return CUSOLVER_STATUS_INVALID_VALUE

cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t, int64_t m, int64_t n,
                                             cudaDataType type, const void*, int64_t lda, cudaDataType, const void*,
                                             cudaDataType, size_t* on_device, size_t* on_host) {
  WITH_MATRIX("cusolverDnXgeqrf_bufferSize", m, n, lda);
  return Give(BlockWork(n), type, 1, on_device, on_host);
}

cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t, int64_t m, int64_t n,
                                             cudaDataType type, const void*, int64_t lda, cudaDataType,
                                             size_t* on_device, size_t* on_host) {
  WITH_MATRIX("cusolverDnXgetrf_bufferSize", m, n, lda);
  return Give(BlockWork(n), type, 1, on_device, on_host);
}

cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t, cublasFillMode_t, int64_t n,
                                             cudaDataType type, const void*, int64_t lda, cudaDataType,
                                             size_t* on_device, size_t* on_host) {
  WITH_MATRIX("cusolverDnXpotrf_bufferSize", n, n, lda);
  return Give(BlockWork(n), type, 1, on_device, on_host);
}

cusolverStatus_t cusolverDnXsytrs_bufferSize(cusolverDnHandle_t handle, cublasFillMode_t, int64_t n, int64_t,
                                             cudaDataType type, const void*, int64_t lda, const int64_t*, cudaDataType,
                                             void*, int64_t, size_t* on_device, size_t* on_host) {
  WITH_MATRIX("cusolverDnXsytrs_bufferSize", n, n, lda);
  return Give(BlockWork(n), type, 1, on_device, on_host);
}

cusolverStatus_t cusolverDnXgesvd_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t, signed char, signed char,
                                             int64_t m, int64_t n, cudaDataType type, const void*, int64_t lda,
                                             cudaDataType, const void*, cudaDataType, const void*, int64_t,
                                             cudaDataType, const void*, int64_t, cudaDataType, size_t* on_device,
                                             size_t* on_host) {
  WITH_MATRIX("cusolverDnXgesvd_bufferSize", m, n, lda);
  return Give(SingularValueWork(m, n), type, 1, on_device, on_host);
}

cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t, cusolverEigMode_t,
                                             cublasFillMode_t, int64_t n, cudaDataType type, const void*, int64_t lda,
                                             cudaDataType, const void*, cudaDataType, size_t* on_device,
                                             size_t* on_host) {
  WITH_MATRIX("cusolverDnXsyevd_bufferSize", n, n, lda);
  return Give(EigenWork(n), type, 1, on_device, on_host);
}

#if EBBTIDE_CUDA_GENERATION >= 13
cusolverStatus_t cusolverDnXsyevBatched_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t, cusolverEigMode_t,
                                                   cublasFillMode_t, int64_t n, cudaDataType type, const void*,
                                                   int64_t lda, cudaDataType, const void*, cudaDataType,
                                                   size_t* on_device, size_t* on_host, int64_t batch) {
  WITH_MATRIX("cusolverDnXsyevBatched_bufferSize", n, n, lda);
  return Give(EigenWork(n), type, batch, on_device, on_host);
}

cusolverStatus_t cusolverDnXgeev_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t, cusolverEigMode_t,
                                            cusolverEigMode_t, int64_t n, cudaDataType type, const void*, int64_t lda,
                                            cudaDataType, const void*, cudaDataType, const void*, int64_t, cudaDataType,
                                            const void*, int64_t, cudaDataType, size_t* on_device, size_t* on_host) {
  WITH_MATRIX("cusolverDnXgeev_bufferSize", n, n, lda);
  return Give(GeneralEigenWork(n), type, 1, on_device, on_host);
}
#endif
