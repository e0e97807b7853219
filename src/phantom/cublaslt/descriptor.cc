// Which attributes there are, and how they are kept.
#include "phantom/cublaslt/descriptor.h"

namespace ebbtide::phantom {
namespace {

constexpr LtAttribute kLayout[] = {
    {CUBLASLT_MATRIX_LAYOUT_TYPE, 4},
    {CUBLASLT_MATRIX_LAYOUT_ORDER, 4},
    {CUBLASLT_MATRIX_LAYOUT_ROWS, 8},
    {CUBLASLT_MATRIX_LAYOUT_COLS, 8},
    {CUBLASLT_MATRIX_LAYOUT_LD, 8},
    {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 4, 1},
    {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 8},
    {CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, 8},
    {CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, 4},  // not in CUDA 12.4
};

constexpr LtAttribute kMatmul[] = {
    {CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, 4},
    {CUBLASLT_MATMUL_DESC_SCALE_TYPE, 4},
    {CUBLASLT_MATMUL_DESC_POINTER_MODE, 4},
    {CUBLASLT_MATMUL_DESC_TRANSA, 4},
    {CUBLASLT_MATMUL_DESC_TRANSB, 4},
    {CUBLASLT_MATMUL_DESC_TRANSC, 4},
    {CUBLASLT_MATMUL_DESC_FILL_MODE, 4, CUBLAS_FILL_MODE_FULL},
    {CUBLASLT_MATMUL_DESC_EPILOGUE, 4, CUBLASLT_EPILOGUE_DEFAULT},
    {CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8},
    {CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, 8},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 8},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 8},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, 8},
    {CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, 8},
    {CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, 4},
    {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, 8},
    {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, 8},
    {CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, 8},
    {CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, 8},
    {CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, 8},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, 4, -1},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, 8},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, 8},
    {CUBLASLT_MATMUL_DESC_FAST_ACCUM, 1},
    {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 4, -1},
#if EBBTIDE_CUDA_GENERATION >= 13
    {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, 4},
    {CUBLASLT_MATMUL_DESC_B_SCALE_MODE, 4},
    {CUBLASLT_MATMUL_DESC_C_SCALE_MODE, 4},
    {CUBLASLT_MATMUL_DESC_D_SCALE_MODE, 4},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_MODE, 4},
    {CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER, 8},
    {CUBLASLT_MATMUL_DESC_D_OUT_SCALE_MODE, 4},
    {CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR, 8},
    {CUBLASLT_MATMUL_DESC_ALPHA_BATCH_STRIDE, 8},
    {CUBLASLT_MATMUL_DESC_BETA_BATCH_STRIDE, 8},
#else
    {27, 4},  // CUBLASLT_MATMUL_DESC_ATOMIC_SYNC_..., which CUDA 13 no longer has: chunks of rows and of columns,
    {28, 4},
    {29, 8},  // counters in and out
    {30, 8},
#endif
};

constexpr LtAttribute kPreference[] = {
    {CUBLASLT_MATMUL_PREF_SEARCH_MODE, 4},
    {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 8},
    {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 4, CUBLASLT_REDUCTION_SCHEME_MASK},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 4, 256},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 4, 256},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 4, 256},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 4, 256},
    {CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, 4},
    {CUBLASLT_MATMUL_PREF_IMPL_MASK, 8, -1},
    {CUBLASLT_MATMUL_PREF_GROUPED_AVERAGE_REDUCTION_DIM, 4},  // these three not in CUDA 12.4
    {CUBLASLT_MATMUL_PREF_GROUPED_DESC_D_AVERAGE_ROWS, 4},
    {CUBLASLT_MATMUL_PREF_GROUPED_DESC_D_AVERAGE_COLS, 4},
};

constexpr LtAttribute kTransform[] = {
    {CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE, 4},
    {CUBLASLT_MATRIX_TRANSFORM_DESC_POINTER_MODE, 4},
    {CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSA, 4},
    {CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSB, 4},
};

constexpr int kMarkBytes = 4;

template <int N>
constexpr int PackedSize(const LtAttribute (&attributes)[N]) {
  int size = kMarkBytes;
  for (const LtAttribute& attribute : attributes) size += attribute.size;
  return size;
}
static_assert(PackedSize(kLayout) <= 64 && PackedSize(kMatmul) <= 256 && PackedSize(kPreference) <= 64 &&
              PackedSize(kTransform) <= 64);

// Where the attribute lies, and null where there is none of that number.
const LtAttribute* Locate(const LtKind& kind, int id, int& offset) {
  offset = kMarkBytes;
  for (int i = 0; i < kind.count; ++i) {
    if (kind.attributes[i].id == id) return &kind.attributes[i];
    offset += kind.attributes[i].size;
  }
  return nullptr;
}

}  // namespace

const LtKind kLayoutKind{0x4c617974, kLayout, std::size(kLayout)};
const LtKind kMatmulKind{0x4d61746d, kMatmul, std::size(kMatmul)};
const LtKind kPreferenceKind{0x50726566, kPreference, std::size(kPreference)};
const LtKind kTransformKind{0x5472616e, kTransform, std::size(kTransform)};

int LtSize(const LtKind& kind) {
  int offset = 0;
  Locate(kind, -1, offset);
  return offset;
}

void LtInitialize(const LtKind& kind, void* descriptor) {
  char* at = static_cast<char*>(descriptor);
  std::memcpy(at, &kind.mark, kMarkBytes);
  at += kMarkBytes;
  for (int i = 0; i < kind.count; at += kind.attributes[i++].size)
    std::memcpy(at, &kind.attributes[i].initial, kind.attributes[i].size);
}

bool LtIs(const LtKind& kind, const void* descriptor) {
  return descriptor && std::memcmp(descriptor, &kind.mark, kMarkBytes) == 0;
}

cublasStatus_t LtSet(const LtKind& kind, void* descriptor, int id, const void* value, std::size_t bytes) {
  int offset = 0;
  const LtAttribute* attribute = Locate(kind, id, offset);
  if (!LtIs(kind, descriptor) || !attribute || !value || bytes != attribute->size) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(static_cast<char*>(descriptor) + offset, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t LtGet(const LtKind& kind, const void* descriptor, int id, void* value, std::size_t bytes,
                     std::size_t* written) {
  int offset = 0;
  const LtAttribute* attribute = Locate(kind, id, offset);
  if (!LtIs(kind, descriptor) || !attribute) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes == 0 ? !written : !value || bytes != attribute->size) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes > 0) std::memcpy(value, static_cast<const char*>(descriptor) + offset, bytes);
  if (written) *written = attribute->size;
  return CUBLAS_STATUS_SUCCESS;
}

std::int64_t LtValue(const LtKind& kind, const void* descriptor, int id) {
  int offset = 0;
  const LtAttribute* attribute = Locate(kind, id, offset);
  if (attribute->size == 4) {
    std::int32_t value = 0;
    std::memcpy(&value, static_cast<const char*>(descriptor) + offset, 4);
    return value;
  }
  std::int64_t value = 0;
  std::memcpy(&value, static_cast<const char*>(descriptor) + offset, attribute->size);
  return value;
}

void LtAssign(const LtKind& kind, void* descriptor, int id, std::int64_t value) {
  int offset = 0;
  const LtAttribute* attribute = Locate(kind, id, offset);
  std::memcpy(static_cast<char*>(descriptor) + offset, &value, attribute->size);
}

}  // namespace ebbtide::phantom
