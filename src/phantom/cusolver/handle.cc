// Handles, options and versions of cuSOLVER.
#include "phantom/core/device.h"
#include "phantom/cusolver/solver.h"

using namespace ebbtide::phantom;

namespace {

#if EBBTIDE_CUDA_GENERATION >= 13
constexpr int kVersion[] = {CUSOLVER_VER_MAJOR, CUSOLVER_VER_MINOR, CUSOLVER_VER_PATCH};
#else
constexpr int kVersion[] = {11, 6, 1};  // that of CUDA 12.4.1
#endif

Handles<SolverOptions>& Options() {
  static auto* options = new Handles<SolverOptions>;
  return *options;
}

template <class Handle>
cusolverStatus_t CreateOptions(Handle* out) {
  if (!out) return CUSOLVER_STATUS_INVALID_VALUE;
  *out = reinterpret_cast<Handle>(Options().Create().get());
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t Known(const void* options) {
  return Options().Find(options) ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}

}  // namespace

namespace ebbtide::phantom {

Handles<Solver>& Solvers() {
  static auto* solvers = new Handles<Solver>;
  return *solvers;
}

cusolverStatus_t FromCode(Code code) {
  switch (code) {
    case Code::kSuccess: return CUSOLVER_STATUS_SUCCESS;
    case Code::kNotInitialized:
    case Code::kNoDevice: return CUSOLVER_STATUS_NOT_INITIALIZED;
    case Code::kOutOfMemory: return CUSOLVER_STATUS_ALLOC_FAILED;
    case Code::kInvalidValue: return CUSOLVER_STATUS_INVALID_VALUE;
    case Code::kNotSupported: return CUSOLVER_STATUS_NOT_SUPPORTED;
    default: return CUSOLVER_STATUS_EXECUTION_FAILED;
  }
}

int LaunchOfHandle(CallSite& site, const char* name, void* handle) {
  if (Code code = site.Enter(handle); code != Code::kSuccess) return FromCode(code);
  std::shared_ptr<Solver> solver = Solvers().Find(handle);
  return solver ? FromCode(Launch(name, solver->stream)) : CUSOLVER_STATUS_NOT_INITIALIZED;
}

}  // namespace ebbtide::phantom

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* out) {
  EBB_PHANTOM_CALL(FromCode, "cusolverDnCreate");
  if (!out) return CUSOLVER_STATUS_INVALID_VALUE;
  if (Code code = TheDevice().contexts.Use(); code != Code::kSuccess) return FromCode(code);
  *out = reinterpret_cast<cusolverDnHandle_t>(Solvers().Create().get());
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  EBB_PHANTOM_CALL(FromCode, "cusolverDnDestroy", handle);
  return Solvers().Remove(handle) ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_NOT_INITIALIZED;
}

cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  SOLVER_CALL("cusolverDnSetStream", handle, stream);
  if (!IsStream(stream)) return CUSOLVER_STATUS_INVALID_VALUE;
  solver->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t* stream) {
  SOLVER_CALL("cusolverDnGetStream", handle);
  if (!stream) return CUSOLVER_STATUS_INVALID_VALUE;
  *stream = static_cast<cudaStream_t>(solver->stream);
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSetDeterministicMode(cusolverDnHandle_t handle, cusolverDeterministicMode_t mode) {
  SOLVER_CALL("cusolverDnSetDeterministicMode", handle, mode);
  solver->deterministic = mode;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnGetDeterministicMode(cusolverDnHandle_t handle, cusolverDeterministicMode_t* mode) {
  SOLVER_CALL("cusolverDnGetDeterministicMode", handle);
  if (!mode) return CUSOLVER_STATUS_INVALID_VALUE;
  *mode = solver->deterministic;
  return CUSOLVER_STATUS_SUCCESS;
}

// Three kinds of options.
#define OPTIONS(create, destroy, Handle)                                                        \
  cusolverStatus_t create(Handle* out) {                                                        \
    EBB_PHANTOM_CALL(FromCode, #create);                                                        \
    return CreateOptions(out);                                                                  \
  }                                                                                             \
  cusolverStatus_t destroy(Handle options) {                                                    \
    EBB_PHANTOM_CALL(FromCode, #destroy, options);                                              \
    return Options().Remove(options) ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE; \
  }
OPTIONS(cusolverDnCreateParams, cusolverDnDestroyParams, cusolverDnParams_t)
OPTIONS(cusolverDnCreateGesvdjInfo, cusolverDnDestroyGesvdjInfo, gesvdjInfo_t)
OPTIONS(cusolverDnCreateSyevjInfo, cusolverDnDestroySyevjInfo, syevjInfo_t)

#define OPTION(name, Handle, T)                 \
  cusolverStatus_t name(Handle options, T) {    \
    EBB_PHANTOM_CALL(FromCode, #name, options); \
    return Known(options);                      \
  }
OPTION(cusolverDnXgesvdjSetTolerance, gesvdjInfo_t, double)
OPTION(cusolverDnXgesvdjSetMaxSweeps, gesvdjInfo_t, int)
OPTION(cusolverDnXgesvdjSetSortEig, gesvdjInfo_t, int)
OPTION(cusolverDnXsyevjSetTolerance, syevjInfo_t, double)
OPTION(cusolverDnXsyevjSetMaxSweeps, syevjInfo_t, int)
OPTION(cusolverDnXsyevjSetSortEig, syevjInfo_t, int)

cusolverStatus_t cusolverGetVersion(int* version) {
  EBB_PHANTOM_CALL(FromCode, "cusolverGetVersion");
  if (!version) return CUSOLVER_STATUS_INVALID_VALUE;
  *version = kVersion[0] * 1000 + kVersion[1] * 100 + kVersion[2];
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverGetProperty(libraryPropertyType type, int* value) {
  EBB_PHANTOM_CALL(FromCode, "cusolverGetProperty", type);
  if (!value || type < MAJOR_VERSION || type > PATCH_LEVEL) return CUSOLVER_STATUS_INVALID_VALUE;
  *value = kVersion[type];
  return CUSOLVER_STATUS_SUCCESS;
}
