// Matrix products: kernels whose shapes are checked as the real library does before it launches.
#include <algorithm>

#include "phantom/cublas/blas.h"

using namespace ebbtide::phantom;

namespace {

struct Shape {
  cublasOperation_t transposed_a, transposed_b;
  std::int64_t m, n, k, lda, ldb, ldc;
  std::int64_t batch = 1;
  ProductType type = ProductType::kFloat32;
};

// The smallest leading dimension of a matrix that is rows x columns once `operation` was applied to it.
std::int64_t SmallestLeading(cublasOperation_t operation, std::int64_t rows, std::int64_t columns) {
  return std::max<std::int64_t>(1, operation == CUBLAS_OP_N ? rows : columns);
}

// By what the matrices hold; float32 is rounded for tensor cores where the program said so.
ProductType TypeOf(const Blas& blas, cudaDataType data) {
  switch (data) {
    case CUDA_R_16F: return ProductType::kFloat16;
    case CUDA_R_16BF: return ProductType::kBFloat16;
    case CUDA_R_64F:
    case CUDA_C_64F: return ProductType::kFloat64;
    case CUDA_R_8I: return ProductType::kInt8;
    default: return blas.math_mode == CUBLAS_TF32_TENSOR_OP_MATH ? ProductType::kTf32 : ProductType::kFloat32;
  }
}

template <class T>
constexpr cudaDataType kDataOf = CUDA_R_32F;
template <>
constexpr cudaDataType kDataOf<__half> = CUDA_R_16F;
template <>
constexpr cudaDataType kDataOf<double> = CUDA_R_64F;
template <>
constexpr cudaDataType kDataOf<cuDoubleComplex> = CUDA_C_64F;

cublasStatus_t Multiply(const char* name, const Blas& blas, const Shape& shape, const void* alpha, const void* beta) {
  auto known = [](cublasOperation_t operation) { return operation >= CUBLAS_OP_N && operation <= CUBLAS_OP_C; };
  if (!known(shape.transposed_a) || !known(shape.transposed_b)) return CUBLAS_STATUS_INVALID_VALUE;
  if (shape.m < 0 || shape.n < 0 || shape.k < 0 || shape.batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (shape.lda < SmallestLeading(shape.transposed_a, shape.m, shape.k)) return CUBLAS_STATUS_INVALID_VALUE;
  if (shape.ldb < SmallestLeading(shape.transposed_b, shape.k, shape.n)) return CUBLAS_STATUS_INVALID_VALUE;
  if (shape.ldc < std::max<std::int64_t>(1, shape.m)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  if (shape.m == 0 || shape.n == 0 || shape.batch == 0) return CUBLAS_STATUS_SUCCESS;  // nothing to do
  return FromCode(Launch(name, blas.stream, TimeOfProduct(shape.batch, shape.m, shape.n, shape.k, shape.type)));
}

}  // namespace

#define OPERATIONS cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb
#define CHECKED(name, batch, data)          \
  BLAS_CALL(name, handle, ta, tb, m, n, k); \
  return Multiply(name, *blas, {ta, tb, m, n, k, lda, ldb, ldc, batch, TypeOf(*blas, data)}, alpha, beta)

// `function` with arguments of type T; I is int, and int64_t in the functions that end in _64.
#define GEMM(function, name, T, I)                                                                                    \
  cublasStatus_t function(OPERATIONS, I m, I n, I k, const T* alpha, const T*, I lda, const T*, I ldb, const T* beta, \
                          T*, I ldc) {                                                                                \
    CHECKED(name, 1, kDataOf<T>);                                                                                     \
  }
#define GEMM_BATCHED(function, name, T, I)                                                                             \
  cublasStatus_t function(OPERATIONS, I m, I n, I k, const T* alpha, const T* const[], I lda, const T* const[], I ldb, \
                          const T* beta, T* const[], I ldc, I batch) {                                                 \
    CHECKED(name, batch, kDataOf<T>);                                                                                  \
  }
#define GEMM_STRIDED(function, name, T, I)                                                                        \
  cublasStatus_t function(OPERATIONS, I m, I n, I k, const T* alpha, const T*, I lda, long long, const T*, I ldb, \
                          long long, const T* beta, T*, I ldc, long long, I batch) {                              \
    CHECKED(name, batch, kDataOf<T>);                                                                             \
  }
#define GEMM_TYPED(function, name, T, I)                                                                    \
  cublasStatus_t function(OPERATIONS, I m, I n, I k, const T* alpha, const void*, cudaDataType data, I lda, \
                          const void*, cudaDataType, I ldb, const T* beta, void*, cudaDataType, I ldc) {    \
    CHECKED(name, 1, data);                                                                                 \
  }
#define GEMM_EX(I, SUFFIX)                                                                                            \
  cublasStatus_t cublasGemmEx##SUFFIX(OPERATIONS, I m, I n, I k, const void* alpha, const void*, cudaDataType data,   \
                                      I lda, const void*, cudaDataType, I ldb, const void* beta, void*, cudaDataType, \
                                      I ldc, cublasComputeType_t, cublasGemmAlgo_t) {                                 \
    CHECKED("cublasGemmEx" #SUFFIX, 1, data);                                                                         \
  }                                                                                                                   \
  cublasStatus_t cublasGemmBatchedEx##SUFFIX(OPERATIONS, I m, I n, I k, const void* alpha, const void* const[],       \
                                             cudaDataType data, I lda, const void* const[], cudaDataType, I ldb,      \
                                             const void* beta, void* const[], cudaDataType, I ldc, I batch,           \
                                             cublasComputeType_t, cublasGemmAlgo_t) {                                 \
    CHECKED("cublasGemmBatchedEx" #SUFFIX, batch, data);                                                              \
  }                                                                                                                   \
  cublasStatus_t cublasGemmStridedBatchedEx##SUFFIX(OPERATIONS, I m, I n, I k, const void* alpha, const void*,        \
                                                    cudaDataType data, I lda, long long, const void*, cudaDataType,   \
                                                    I ldb, long long, const void* beta, void*, cudaDataType, I ldc,   \
                                                    long long, I batch, cublasComputeType_t, cublasGemmAlgo_t) {      \
    CHECKED("cublasGemmStridedBatchedEx" #SUFFIX, batch, data);                                                       \
  }

#define BOTH(FAMILY, function, name, T) \
  FAMILY(function, name, T, int)        \
  FAMILY(function##_64, name "_64", T, int64_t)

BOTH(GEMM, cublasHgemm, "cublasHgemm", __half)
BOTH(GEMM, cublasSgemm_v2, "cublasSgemm", float)
BOTH(GEMM, cublasDgemm_v2, "cublasDgemm", double)
BOTH(GEMM, cublasCgemm_v2, "cublasCgemm", cuComplex)
BOTH(GEMM, cublasZgemm_v2, "cublasZgemm", cuDoubleComplex)
BOTH(GEMM, cublasCgemm3m, "cublasCgemm3m", cuComplex)
BOTH(GEMM, cublasZgemm3m, "cublasZgemm3m", cuDoubleComplex)
BOTH(GEMM_BATCHED, cublasHgemmBatched, "cublasHgemmBatched", __half)
BOTH(GEMM_BATCHED, cublasSgemmBatched, "cublasSgemmBatched", float)
BOTH(GEMM_BATCHED, cublasDgemmBatched, "cublasDgemmBatched", double)
BOTH(GEMM_BATCHED, cublasCgemmBatched, "cublasCgemmBatched", cuComplex)
BOTH(GEMM_BATCHED, cublasZgemmBatched, "cublasZgemmBatched", cuDoubleComplex)
BOTH(GEMM_STRIDED, cublasHgemmStridedBatched, "cublasHgemmStridedBatched", __half)
BOTH(GEMM_STRIDED, cublasSgemmStridedBatched, "cublasSgemmStridedBatched", float)
BOTH(GEMM_STRIDED, cublasDgemmStridedBatched, "cublasDgemmStridedBatched", double)
BOTH(GEMM_STRIDED, cublasCgemmStridedBatched, "cublasCgemmStridedBatched", cuComplex)
BOTH(GEMM_STRIDED, cublasZgemmStridedBatched, "cublasZgemmStridedBatched", cuDoubleComplex)
BOTH(GEMM_TYPED, cublasSgemmEx, "cublasSgemmEx", float)
BOTH(GEMM_TYPED, cublasCgemmEx, "cublasCgemmEx", cuComplex)
GEMM_EX(int, )
GEMM_EX(int64_t, _64)

#undef BOTH  // several sources are compiled as one
