// Handles, versions, and the descriptors of the older interface.
#include "phantom/core/device.h"
#include "phantom/cusparse/sparse.h"

using namespace ebbtide::phantom;

namespace {

#if EBBTIDE_CUDA_GENERATION >= 13
constexpr int kVersion[] = {CUSPARSE_VER_MAJOR, CUSPARSE_VER_MINOR, CUSPARSE_VER_PATCH};
#else
constexpr int kVersion[] = {12, 3, 1};  // that of CUDA 12.4.1
#endif

struct OldMatrix {
  cusparseMatrixType_t type = CUSPARSE_MATRIX_TYPE_GENERAL;
  cusparseFillMode_t fill_mode = CUSPARSE_FILL_MODE_LOWER;
  cusparseDiagType_t diagonal = CUSPARSE_DIAG_TYPE_NON_UNIT;
  cusparseIndexBase_t base = CUSPARSE_INDEX_BASE_ZERO;
};

Handles<OldMatrix>& OldMatrices() {
  static auto* matrices = new Handles<OldMatrix>;
  return *matrices;
}

}  // namespace

namespace ebbtide::phantom {

Handles<Sparse>& SparseHandles() {
  static auto* handles = new Handles<Sparse>;
  return *handles;
}

cusparseStatus_t FromCode(Code code) {
  switch (code) {
    case Code::kSuccess: return CUSPARSE_STATUS_SUCCESS;
    case Code::kNotInitialized:
    case Code::kNoDevice: return CUSPARSE_STATUS_NOT_INITIALIZED;
    case Code::kOutOfMemory: return CUSPARSE_STATUS_ALLOC_FAILED;
    case Code::kInvalidValue: return CUSPARSE_STATUS_INVALID_VALUE;
    case Code::kNotSupported: return CUSPARSE_STATUS_NOT_SUPPORTED;
    default: return CUSPARSE_STATUS_EXECUTION_FAILED;
  }
}

int LaunchOfHandle(CallSite& site, const char* name, void* handle) {
  if (Code code = site.Enter(handle); code != Code::kSuccess) return FromCode(code);
  std::shared_ptr<Sparse> sparse = SparseHandles().Find(handle);
  return sparse ? FromCode(Launch(name, sparse->stream)) : CUSPARSE_STATUS_NOT_INITIALIZED;
}

}  // namespace ebbtide::phantom

cusparseStatus_t cusparseCreate(cusparseHandle_t* out) {
  EBB_PHANTOM_CALL(FromCode, "cusparseCreate");
  if (!out) return CUSPARSE_STATUS_INVALID_VALUE;
  if (Code code = TheDevice().contexts.Use(); code != Code::kSuccess) return FromCode(code);
  *out = reinterpret_cast<cusparseHandle_t>(SparseHandles().Create().get());
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDestroy(cusparseHandle_t handle) {
  EBB_PHANTOM_CALL(FromCode, "cusparseDestroy", handle);
  return SparseHandles().Remove(handle) ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_NOT_INITIALIZED;
}

cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream) {
  SPARSE_CALL("cusparseSetStream", handle, stream);
  if (!IsStream(stream)) return CUSPARSE_STATUS_INVALID_VALUE;
  sparse->stream = stream;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseGetStream(cusparseHandle_t handle, cudaStream_t* stream) {
  SPARSE_CALL("cusparseGetStream", handle);
  if (!stream) return CUSPARSE_STATUS_INVALID_VALUE;
  *stream = static_cast<cudaStream_t>(sparse->stream);
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t mode) {
  SPARSE_CALL("cusparseSetPointerMode", handle, mode);
  sparse->pointer_mode = mode;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseGetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t* mode) {
  SPARSE_CALL("cusparseGetPointerMode", handle);
  if (!mode) return CUSPARSE_STATUS_INVALID_VALUE;
  *mode = sparse->pointer_mode;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseGetVersion(cusparseHandle_t handle, int* version) {
  SPARSE_CALL("cusparseGetVersion", handle);
  if (!version) return CUSPARSE_STATUS_INVALID_VALUE;
  *version = kVersion[0] * 1000 + kVersion[1] * 100 + kVersion[2];
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseGetProperty(libraryPropertyType type, int* value) {
  EBB_PHANTOM_CALL(FromCode, "cusparseGetProperty", type);
  if (!value || type < MAJOR_VERSION || type > PATCH_LEVEL) return CUSPARSE_STATUS_INVALID_VALUE;
  *value = kVersion[type];
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCreateMatDescr(cusparseMatDescr_t* out) {
  EBB_PHANTOM_CALL(FromCode, "cusparseCreateMatDescr");
  if (!out) return CUSPARSE_STATUS_INVALID_VALUE;
  *out = reinterpret_cast<cusparseMatDescr_t>(OldMatrices().Create().get());
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDestroyMatDescr(cusparseMatDescr_t matrix) {
  EBB_PHANTOM_CALL(FromCode, "cusparseDestroyMatDescr", matrix);
  return OldMatrices().Remove(matrix) ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
}

// Setting and reading; a reader cannot say that it was given no descriptor and then answers with the default.
#define PROPERTY(Name, T, field)                                           \
  cusparseStatus_t cusparseSet##Name(cusparseMatDescr_t matrix, T value) { \
    EBB_PHANTOM_CALL(FromCode, "cusparseSet" #Name, matrix, value);        \
    std::shared_ptr<OldMatrix> found = OldMatrices().Find(matrix);         \
    if (!found) return CUSPARSE_STATUS_INVALID_VALUE;                      \
    found->field = value;                                                  \
    return CUSPARSE_STATUS_SUCCESS;                                        \
  }                                                                        \
  T cusparseGet##Name(const cusparseMatDescr_t matrix) {                   \
    std::shared_ptr<OldMatrix> found = OldMatrices().Find(matrix);         \
    return found ? found->field : OldMatrix().field;                       \
  }
PROPERTY(MatType, cusparseMatrixType_t, type)
PROPERTY(MatFillMode, cusparseFillMode_t, fill_mode)
PROPERTY(MatDiagType, cusparseDiagType_t, diagonal)
PROPERTY(MatIndexBase, cusparseIndexBase_t, base)

const char* cusparseGetErrorName(cusparseStatus_t status) {
  switch (status) {
#define NAME(status) \
  case status: return #status
    NAME(CUSPARSE_STATUS_SUCCESS);
    NAME(CUSPARSE_STATUS_NOT_INITIALIZED);
    NAME(CUSPARSE_STATUS_ALLOC_FAILED);
    NAME(CUSPARSE_STATUS_INVALID_VALUE);
    NAME(CUSPARSE_STATUS_ARCH_MISMATCH);
    NAME(CUSPARSE_STATUS_MAPPING_ERROR);
    NAME(CUSPARSE_STATUS_EXECUTION_FAILED);
    NAME(CUSPARSE_STATUS_INTERNAL_ERROR);
    NAME(CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED);
    NAME(CUSPARSE_STATUS_ZERO_PIVOT);
    NAME(CUSPARSE_STATUS_NOT_SUPPORTED);
    NAME(CUSPARSE_STATUS_INSUFFICIENT_RESOURCES);
#undef NAME
  }
  return "unrecognized error code";
}

const char* cusparseGetErrorString(cusparseStatus_t status) {
  switch (status) {
    case CUSPARSE_STATUS_SUCCESS: return "success";
    case CUSPARSE_STATUS_NOT_INITIALIZED: return "initialization error";
    case CUSPARSE_STATUS_ALLOC_FAILED: return "out of memory";
    case CUSPARSE_STATUS_INVALID_VALUE: return "invalid value";
    case CUSPARSE_STATUS_EXECUTION_FAILED: return "kernel launch failure";
    case CUSPARSE_STATUS_NOT_SUPPORTED: return "operation not supported";
    case CUSPARSE_STATUS_INSUFFICIENT_RESOURCES: return "insufficient resources";
    default: return cusparseGetErrorName(status);
  }
}
