// Handles and what is set on them. The device memory that the real library takes for itself when a handle is made is
// not published and not counted; frameworks give it a workspace of their own.
#include "phantom/core/device.h"
#include "phantom/cublas/blas.h"

using namespace ebbtide::phantom;

namespace {

#if EBBTIDE_CUDA_GENERATION >= 13
constexpr int kMajor = CUBLAS_VER_MAJOR, kMinor = CUBLAS_VER_MINOR, kPatch = CUBLAS_VER_PATCH;
#else
constexpr int kMajor = 12, kMinor = 4, kPatch = 5;  // that of CUDA 12.4.1
#endif

}  // namespace

namespace ebbtide::phantom {

Handles<Blas>& BlasHandles() {
  static auto* handles = new Handles<Blas>;
  return *handles;
}

int LaunchOfHandle(CallSite& site, const char* name, void* handle) {
  if (Code code = site.Enter(handle); code != Code::kSuccess) return FromCode(code);
  std::shared_ptr<Blas> blas = BlasHandles().Find(handle);
  return blas ? FromCode(Launch(name, blas->stream)) : CUBLAS_STATUS_NOT_INITIALIZED;
}

}  // namespace ebbtide::phantom

cublasStatus_t cublasCreate_v2(cublasHandle_t* out) {
  EBB_PHANTOM_CALL(FromCode, "cublasCreate");
  if (!out) return CUBLAS_STATUS_INVALID_VALUE;
  if (Code code = TheDevice().contexts.Use(); code != Code::kSuccess) return FromCode(code);
  *out = reinterpret_cast<cublasHandle_t>(BlasHandles().Create().get());
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  EBB_PHANTOM_CALL(FromCode, "cublasDestroy", handle);
  std::shared_ptr<Blas> blas = BlasHandles().Remove(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  SynchronizeDevice();  // as documented
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  BLAS_CALL("cublasSetStream", handle, stream);
  if (!IsStream(stream)) return CUBLAS_STATUS_INVALID_VALUE;
  blas->stream = stream;
  blas->workspace = nullptr;  // a new stream takes the workspace back, as documented
  blas->workspace_bytes = 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  BLAS_CALL("cublasGetStream", handle);
  if (!stream) return CUBLAS_STATUS_INVALID_VALUE;
  *stream = static_cast<cudaStream_t>(blas->stream);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  BLAS_CALL("cublasSetWorkspace", handle, workspace, bytes);
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  blas->workspace = workspace;
  blas->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  BLAS_CALL("cublasSetPointerMode", handle, mode);
  if (mode != CUBLAS_POINTER_MODE_HOST && mode != CUBLAS_POINTER_MODE_DEVICE) return CUBLAS_STATUS_INVALID_VALUE;
  blas->pointer_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  BLAS_CALL("cublasGetPointerMode", handle);
  if (!mode) return CUBLAS_STATUS_INVALID_VALUE;
  *mode = blas->pointer_mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  BLAS_CALL("cublasSetAtomicsMode", handle, mode);
  if (mode != CUBLAS_ATOMICS_NOT_ALLOWED && mode != CUBLAS_ATOMICS_ALLOWED) return CUBLAS_STATUS_INVALID_VALUE;
  blas->atomics_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode) {
  BLAS_CALL("cublasGetAtomicsMode", handle);
  if (!mode) return CUBLAS_STATUS_INVALID_VALUE;
  *mode = blas->atomics_mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  BLAS_CALL("cublasSetMathMode", handle, mode);
  if (static_cast<unsigned>(mode) > 31) return CUBLAS_STATUS_INVALID_VALUE;
  blas->math_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  BLAS_CALL("cublasGetMathMode", handle);
  if (!mode) return CUBLAS_STATUS_INVALID_VALUE;
  *mode = blas->math_mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int target) {
  BLAS_CALL("cublasSetSmCountTarget", handle, target);
  if (target < 0 || target > Profile().multiprocessors) return CUBLAS_STATUS_INVALID_VALUE;
  blas->multiprocessors = target;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int* target) {
  BLAS_CALL("cublasGetSmCountTarget", handle);
  if (!target) return CUBLAS_STATUS_INVALID_VALUE;
  *target = blas->multiprocessors;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  EBB_PHANTOM_CALL(FromCode, "cublasGetVersion");
  if (!version) return CUBLAS_STATUS_INVALID_VALUE;
  *version = kMajor * 10000 + kMinor * 100 + kPatch;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  EBB_PHANTOM_CALL(FromCode, "cublasGetProperty", type);
  if (!value || type < MAJOR_VERSION || type > PATCH_LEVEL) return CUBLAS_STATUS_INVALID_VALUE;
  *value = type == MAJOR_VERSION ? kMajor : type == MINOR_VERSION ? kMinor : kPatch;
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasGetCudartVersion() { return EBBTIDE_CUDA_GENERATION >= 13 ? CUDART_VERSION : 12040; }
