// Names of the statuses of cuBLAS, for it and for cuBLASLt.
#pragma once

#include <cublas_v2.h>

namespace ebbtide::phantom {

inline const char* BlasStatusName(cublasStatus_t status) {
  switch (status) {
#define NAME(status) \
  case status: return #status
    NAME(CUBLAS_STATUS_SUCCESS);
    NAME(CUBLAS_STATUS_NOT_INITIALIZED);
    NAME(CUBLAS_STATUS_ALLOC_FAILED);
    NAME(CUBLAS_STATUS_INVALID_VALUE);
    NAME(CUBLAS_STATUS_ARCH_MISMATCH);
    NAME(CUBLAS_STATUS_MAPPING_ERROR);
    NAME(CUBLAS_STATUS_EXECUTION_FAILED);
    NAME(CUBLAS_STATUS_INTERNAL_ERROR);
    NAME(CUBLAS_STATUS_NOT_SUPPORTED);
    NAME(CUBLAS_STATUS_LICENSE_ERROR);
#undef NAME
  }
  return "CUBLAS_STATUS_UNKNOWN";
}

}  // namespace ebbtide::phantom
