// What statuses are called.
#include "phantom/cublas/blas.h"
#include "phantom/cublas/status_name.h"

using namespace ebbtide::phantom;

namespace ebbtide::phantom {

cublasStatus_t FromCode(Code code) {
  switch (code) {
    case Code::kSuccess: return CUBLAS_STATUS_SUCCESS;
    case Code::kNotInitialized:
    case Code::kNoDevice: return CUBLAS_STATUS_NOT_INITIALIZED;
    case Code::kOutOfMemory: return CUBLAS_STATUS_ALLOC_FAILED;
    case Code::kInvalidValue: return CUBLAS_STATUS_INVALID_VALUE;
    case Code::kNotSupported: return CUBLAS_STATUS_NOT_SUPPORTED;
    case Code::kMapFailed: return CUBLAS_STATUS_MAPPING_ERROR;
    case Code::kInvalidHandle: return CUBLAS_STATUS_INTERNAL_ERROR;
    default: return CUBLAS_STATUS_EXECUTION_FAILED;
  }
}

}  // namespace ebbtide::phantom

const char* cublasGetStatusName(cublasStatus_t status) { return ebbtide::phantom::BlasStatusName(status); }

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED: return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE: return "an invalid value was given";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "the device lacks a feature";
    case CUBLAS_STATUS_MAPPING_ERROR: return "access to device memory failed";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "the program failed on the device";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "an internal operation failed";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the operation is not supported";
    case CUBLAS_STATUS_LICENSE_ERROR: return "the license check failed";
  }
  return "unknown status";
}
