// Making descriptors, setting and reading them.
#include <new>

#include "phantom/cublaslt/descriptor.h"

using namespace ebbtide::phantom;

namespace {

constexpr std::size_t kCreatedBytes = 256;  // as many as the largest of them takes in any generation

template <class Handle>
cublasStatus_t Create(const LtKind& kind, Handle* out) {
  if (!out) return CUBLAS_STATUS_INVALID_VALUE;
  void* memory = ::operator new(kCreatedBytes, std::nothrow);
  if (!memory) return CUBLAS_STATUS_ALLOC_FAILED;
  std::memset(memory, 0, kCreatedBytes);
  LtInitialize(kind, memory);
  *out = static_cast<Handle>(memory);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Destroy(const LtKind& kind, void* descriptor) {
  if (!LtIs(kind, descriptor)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(descriptor, 0, 4);
  ::operator delete(descriptor);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t InitializeIn(const LtKind& kind, void* descriptor, std::size_t size) {
  if (!descriptor) return CUBLAS_STATUS_INVALID_VALUE;
  if (size < static_cast<std::size_t>(LtSize(kind))) return CUBLAS_STATUS_ALLOC_FAILED;
  LtInitialize(kind, descriptor);
  return CUBLAS_STATUS_SUCCESS;
}

void SetLayout(cublasLtMatrixLayout_t layout, cudaDataType type, std::uint64_t rows, std::uint64_t columns,
               std::int64_t leading) {
  LtAssign(kLayoutKind, layout, CUBLASLT_MATRIX_LAYOUT_TYPE, type);
  LtAssign(kLayoutKind, layout, CUBLASLT_MATRIX_LAYOUT_ROWS, static_cast<std::int64_t>(rows));
  LtAssign(kLayoutKind, layout, CUBLASLT_MATRIX_LAYOUT_COLS, static_cast<std::int64_t>(columns));
  LtAssign(kLayoutKind, layout, CUBLASLT_MATRIX_LAYOUT_LD, leading);
}

void SetTypes(cublasLtMatmulDesc_t product, cublasComputeType_t compute, cudaDataType_t scale) {
  LtAssign(kMatmulKind, product, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, compute);
  LtAssign(kMatmulKind, product, CUBLASLT_MATMUL_DESC_SCALE_TYPE, scale);
}

}  // namespace

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtMatrixLayoutCreate", type, rows, columns, leading);
  cublasStatus_t status = Create(kLayoutKind, out);
  if (status == CUBLAS_STATUS_SUCCESS) SetLayout(*out, type, rows, columns, leading);
  return status;
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t leading) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtMatrixLayoutInit", type, rows, columns, leading);
  cublasStatus_t status = InitializeIn(kLayoutKind, layout, size);
  if (status == CUBLAS_STATUS_SUCCESS) SetLayout(layout, type, rows, columns, leading);
  return status;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t compute, cudaDataType_t scale) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtMatmulDescCreate", compute, scale);
  cublasStatus_t status = Create(kMatmulKind, out);
  if (status == CUBLAS_STATUS_SUCCESS) SetTypes(*out, compute, scale);
  return status;
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t product, size_t size, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtMatmulDescInit", compute, scale);
  cublasStatus_t status = InitializeIn(kMatmulKind, product, size);
  if (status == CUBLAS_STATUS_SUCCESS) SetTypes(product, compute, scale);
  return status;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtMatmulPreferenceCreate");
  return Create(kPreferenceKind, out);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t size) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtMatmulPreferenceInit");
  return InitializeIn(kPreferenceKind, preference, size);
}

cublasStatus_t cublasLtMatrixTransformDescCreate(cublasLtMatrixTransformDesc_t* out, cudaDataType scale) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtMatrixTransformDescCreate", scale);
  cublasStatus_t status = Create(kTransformKind, out);
  if (status == CUBLAS_STATUS_SUCCESS) LtAssign(kTransformKind, *out, CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE, scale);
  return status;
}

cublasStatus_t cublasLtMatrixTransformDescInit_internal(cublasLtMatrixTransformDesc_t transform, size_t size,
                                                        cudaDataType scale) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtMatrixTransformDescInit", scale);
  cublasStatus_t status = InitializeIn(kTransformKind, transform, size);
  if (status == CUBLAS_STATUS_SUCCESS)
    LtAssign(kTransformKind, transform, CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE, scale);
  return status;
}

#define DESCRIPTOR(name, Handle, Attribute, kind)                                                              \
  cublasStatus_t name##Destroy(Handle descriptor) {                                                            \
    EBB_PHANTOM_CALL(FromCode, #name "Destroy", descriptor);                                                   \
    return Destroy(kind, descriptor);                                                                          \
  }                                                                                                            \
  cublasStatus_t name##SetAttribute(Handle descriptor, Attribute attribute, const void* value, size_t bytes) { \
    EBB_PHANTOM_CALL(FromCode, #name "SetAttribute", descriptor, attribute, bytes);                            \
    return LtSet(kind, descriptor, attribute, value, bytes);                                                   \
  }                                                                                                            \
  cublasStatus_t name##GetAttribute(Handle descriptor, Attribute attribute, void* value, size_t bytes,         \
                                    size_t* written) {                                                         \
    EBB_PHANTOM_CALL(FromCode, #name "GetAttribute", descriptor, attribute, bytes);                            \
    return LtGet(kind, descriptor, attribute, value, bytes, written);                                          \
  }

DESCRIPTOR(cublasLtMatrixLayout, cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, kLayoutKind)
DESCRIPTOR(cublasLtMatmulDesc, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, kMatmulKind)
DESCRIPTOR(cublasLtMatmulPreference, cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, kPreferenceKind)
DESCRIPTOR(cublasLtMatrixTransformDesc, cublasLtMatrixTransformDesc_t, cublasLtMatrixTransformDescAttributes_t,
           kTransformKind)
