// Functions with a result for the host: where the handle says that results go there, the call waits and gives zero.
#include "phantom/cublas/blas.h"

using namespace ebbtide::phantom;
using ebbtide::Bytes;

namespace {

cublasStatus_t Reduce(const char* name, const Blas& blas, void* result, Bytes bytes) {
  if (!result || bytes == 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (Code code = Launch(name, blas.stream); code != Code::kSuccess) return FromCode(code);
  if (blas.pointer_mode == CUBLAS_POINTER_MODE_DEVICE) return CUBLAS_STATUS_SUCCESS;
  return FromCode(GiveZeros(blas.stream, result, bytes));
}

// 0: no type that a result can have.
Bytes SizeOf(cudaDataType type) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    case CUDA_R_32F:
    case CUDA_C_16F:
    case CUDA_C_16BF: return 4;
    case CUDA_R_64F:
    case CUDA_C_32F: return 8;
    case CUDA_C_64F: return 16;
    default: return 0;
  }
}

}  // namespace

// One vector, and two.
#define OF_ONE(function, name, T, R, I)                                         \
  cublasStatus_t function(cublasHandle_t handle, I n, const T*, I, R* result) { \
    BLAS_CALL(name, handle, n);                                                 \
    return Reduce(name, *blas, result, sizeof(R));                              \
  }
#define OF_TWO(function, name, T, R, I)                                                      \
  cublasStatus_t function(cublasHandle_t handle, I n, const T*, I, const T*, I, R* result) { \
    BLAS_CALL(name, handle, n);                                                              \
    return Reduce(name, *blas, result, sizeof(R));                                           \
  }
#define BOTH(FAMILY, name, T, R)      \
  FAMILY(name##_v2, #name, T, R, int) \
  FAMILY(name##_v2_64, #name "_64", T, R, int64_t)
#define INDEX(name, T)                  \
  OF_ONE(name##_v2, #name, T, int, int) \
  OF_ONE(name##_v2_64, #name "_64", T, int64_t, int64_t)

BOTH(OF_ONE, cublasSasum, float, float)
BOTH(OF_ONE, cublasDasum, double, double)
BOTH(OF_ONE, cublasScasum, cuComplex, float)
BOTH(OF_ONE, cublasDzasum, cuDoubleComplex, double)
BOTH(OF_ONE, cublasSnrm2, float, float)
BOTH(OF_ONE, cublasDnrm2, double, double)
BOTH(OF_ONE, cublasScnrm2, cuComplex, float)
BOTH(OF_ONE, cublasDznrm2, cuDoubleComplex, double)
BOTH(OF_TWO, cublasSdot, float, float)
BOTH(OF_TWO, cublasDdot, double, double)
BOTH(OF_TWO, cublasCdotu, cuComplex, cuComplex)
BOTH(OF_TWO, cublasCdotc, cuComplex, cuComplex)
BOTH(OF_TWO, cublasZdotu, cuDoubleComplex, cuDoubleComplex)
BOTH(OF_TWO, cublasZdotc, cuDoubleComplex, cuDoubleComplex)
INDEX(cublasIsamax, float)
INDEX(cublasIdamax, double)
INDEX(cublasIcamax, cuComplex)
INDEX(cublasIzamax, cuDoubleComplex)
INDEX(cublasIsamin, float)
INDEX(cublasIdamin, double)
INDEX(cublasIcamin, cuComplex)
INDEX(cublasIzamin, cuDoubleComplex)

#define OF_ONE_TYPED(name, I)                                                                                    \
  cublasStatus_t name(cublasHandle_t handle, I n, const void*, cudaDataType, I, void* result, cudaDataType type, \
                      cudaDataType) {                                                                            \
    BLAS_CALL(#name, handle, n);                                                                                 \
    return Reduce(#name, *blas, result, SizeOf(type));                                                           \
  }
#define OF_TWO_TYPED(name, I)                                                                                 \
  cublasStatus_t name(cublasHandle_t handle, I n, const void*, cudaDataType, I, const void*, cudaDataType, I, \
                      void* result, cudaDataType type, cudaDataType) {                                        \
    BLAS_CALL(#name, handle, n);                                                                              \
    return Reduce(#name, *blas, result, SizeOf(type));                                                        \
  }
OF_ONE_TYPED(cublasAsumEx, int)
OF_ONE_TYPED(cublasAsumEx_64, int64_t)
OF_ONE_TYPED(cublasNrm2Ex, int)
OF_ONE_TYPED(cublasNrm2Ex_64, int64_t)
OF_TWO_TYPED(cublasDotEx, int)
OF_TWO_TYPED(cublasDotEx_64, int64_t)
OF_TWO_TYPED(cublasDotcEx, int)
OF_TWO_TYPED(cublasDotcEx_64, int64_t)

#define INDEX_TYPED(name, I)                                                                 \
  cublasStatus_t name(cublasHandle_t handle, I n, const void*, cudaDataType, I, I* result) { \
    BLAS_CALL(#name, handle, n);                                                             \
    return Reduce(#name, *blas, result, sizeof(I));                                          \
  }
INDEX_TYPED(cublasIamaxEx, int)
INDEX_TYPED(cublasIamaxEx_64, int64_t)
INDEX_TYPED(cublasIaminEx, int)
INDEX_TYPED(cublasIaminEx_64, int64_t)

#undef BOTH  // several sources are compiled as one
