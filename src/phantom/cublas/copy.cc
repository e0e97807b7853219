// Vectors and matrices from the host and back: strided copies.
#include "phantom/core/copy.h"

#include "phantom/core/device.h"
#include "phantom/cublas/blas.h"

using namespace ebbtide::phantom;
using ebbtide::Bytes;

namespace {

cublasStatus_t Strided(const char* name, std::int64_t rows, std::int64_t columns, std::int64_t element,
                       const void* from, std::int64_t from_leading, void* to, std::int64_t to_leading,
                       cudaStream_t handle, bool blocking) {
  if (rows < 0 || columns < 0 || element <= 0 || from_leading < rows || to_leading < rows)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (rows == 0 || columns == 0) return CUBLAS_STATUS_SUCCESS;
  Bytes width = 0, from_pitch = 0, to_pitch = 0;
  if (__builtin_mul_overflow(rows, element, &width) || __builtin_mul_overflow(from_leading, element, &from_pitch) ||
      __builtin_mul_overflow(to_leading, element, &to_pitch))
    return CUBLAS_STATUS_INVALID_VALUE;
  Device& device = TheDevice();
  if (Code code = device.contexts.Use(); code != Code::kSuccess) return FromCode(code);
  std::shared_ptr<Stream> stream = device.streams.Find(handle);
  if (!stream) return CUBLAS_STATUS_INVALID_VALUE;
  if (width == from_pitch && width == to_pitch && !__builtin_mul_overflow(width, columns, &width)) columns = 1;
  Code code = Copy(device, *stream,
                   {.name = name,
                    .to = reinterpret_cast<Address>(to),
                    .from = reinterpret_cast<Address>(from),
                    .width = width,
                    .height = columns,
                    .to_pitch = to_pitch,
                    .from_pitch = from_pitch,
                    .blocking = blocking});
  return code == Code::kInvalidValue ? CUBLAS_STATUS_MAPPING_ERROR : FromCode(code);
}

}  // namespace

// A vector is a matrix of one row: element i lies at i * increment.
#define COPIES(direction, I, SUFFIX)                                                                                 \
  cublasStatus_t cublas##direction##Vector##SUFFIX(I n, I element, const void* x, I incx, void* y, I incy) {         \
    EBB_PHANTOM_CALL(FromCode, "cublas" #direction "Vector" #SUFFIX, n, element, x, y);                              \
    return Strided("cublas" #direction "Vector", 1, n, element, x, incx, y, incy, nullptr, true);                    \
  }                                                                                                                  \
  cublasStatus_t cublas##direction##VectorAsync##SUFFIX(I n, I element, const void* x, I incx, void* y, I incy,      \
                                                        cudaStream_t stream) {                                       \
    EBB_PHANTOM_CALL(FromCode, "cublas" #direction "VectorAsync" #SUFFIX, n, element, x, y, stream);                 \
    return Strided("cublas" #direction "VectorAsync", 1, n, element, x, incx, y, incy, stream, false);               \
  }                                                                                                                  \
  cublasStatus_t cublas##direction##Matrix##SUFFIX(I rows, I columns, I element, const void* a, I lda, void* b,      \
                                                   I ldb) {                                                          \
    EBB_PHANTOM_CALL(FromCode, "cublas" #direction "Matrix" #SUFFIX, rows, columns, element, a, b);                  \
    return Strided("cublas" #direction "Matrix", rows, columns, element, a, lda, b, ldb, nullptr, true);             \
  }                                                                                                                  \
  cublasStatus_t cublas##direction##MatrixAsync##SUFFIX(I rows, I columns, I element, const void* a, I lda, void* b, \
                                                        I ldb, cudaStream_t stream) {                                \
    EBB_PHANTOM_CALL(FromCode, "cublas" #direction "MatrixAsync" #SUFFIX, rows, columns, element, a, b, stream);     \
    return Strided("cublas" #direction "MatrixAsync", rows, columns, element, a, lda, b, ldb, stream, false);        \
  }

COPIES(Set, int, )
COPIES(Set, int64_t, _64)
COPIES(Get, int, )
COPIES(Get, int64_t, _64)
