// Handles and versions. A handle holds nothing: any that is not null will do, which is also what lets a cuBLAS handle
// stand for one, as documented.
#include "phantom/core/device.h"
#include "phantom/cublas/status_name.h"
#include "phantom/cublaslt/descriptor.h"

using namespace ebbtide::phantom;

namespace {

#if EBBTIDE_CUDA_GENERATION >= 13
constexpr int kMajor = CUBLAS_VER_MAJOR, kMinor = CUBLAS_VER_MINOR, kPatch = CUBLAS_VER_PATCH;
#else
constexpr int kMajor = 12, kMinor = 4, kPatch = 5;  // that of CUDA 12.4.1
#endif

struct LtHandle {
  int unused = 0;
};

Handles<LtHandle>& LtHandles() {
  static auto* handles = new Handles<LtHandle>;
  return *handles;
}

}  // namespace

namespace ebbtide::phantom {

cublasStatus_t FromCode(Code code) {
  switch (code) {
    case Code::kSuccess: return CUBLAS_STATUS_SUCCESS;
    case Code::kNotInitialized:
    case Code::kNoDevice: return CUBLAS_STATUS_NOT_INITIALIZED;
    case Code::kOutOfMemory: return CUBLAS_STATUS_ALLOC_FAILED;
    case Code::kInvalidValue:
    case Code::kInvalidHandle: return CUBLAS_STATUS_INVALID_VALUE;
    case Code::kNotSupported: return CUBLAS_STATUS_NOT_SUPPORTED;
    default: return CUBLAS_STATUS_EXECUTION_FAILED;
  }
}

}  // namespace ebbtide::phantom

cublasStatus_t cublasLtCreate(cublasLtHandle_t* out) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtCreate");
  if (!out) return CUBLAS_STATUS_INVALID_VALUE;
  if (Code code = TheDevice().contexts.Use(); code != Code::kSuccess) return FromCode(code);
  *out = reinterpret_cast<cublasLtHandle_t>(LtHandles().Create().get());
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtDestroy", handle);
  return LtHandles().Remove(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

size_t cublasLtGetVersion() { return kMajor * 10000 + kMinor * 100 + kPatch; }

size_t cublasLtGetCudartVersion() { return EBBTIDE_CUDA_GENERATION >= 13 ? CUDART_VERSION : 12040; }

cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int* value) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtGetProperty", type);
  if (!value || type < MAJOR_VERSION || type > PATCH_LEVEL) return CUBLAS_STATUS_INVALID_VALUE;
  *value = type == MAJOR_VERSION ? kMajor : type == MINOR_VERSION ? kMinor : kPatch;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusName(cublasStatus_t status) { return ebbtide::phantom::BlasStatusName(status); }

const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }
