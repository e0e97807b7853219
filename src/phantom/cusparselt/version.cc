// cuSPARSELt is there by its version alone: products of matrices with a fixed pattern of zeros are not modelled, and
// the first call of such a program says so.
#include "phantom/core/api.h"

using namespace ebbtide::phantom;

namespace {

// Those that torch 2.15 for CUDA 13 and 2.6 for CUDA 12.4 come with.
constexpr int kVersion[] = {0, EBBTIDE_CUDA_GENERATION >= 13 ? 8 : 6, EBBTIDE_CUDA_GENERATION >= 13 ? 1 : 2};

// Statuses are those of cuSPARSE.
constexpr int kSuccess = 0, kInvalidValue = 3, kExecutionFailed = 6;

int FromCode(Code code) { return code == Code::kSuccess ? kSuccess : kExecutionFailed; }

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

API int cusparseLtGetVersion(const void*, int* version) {
  EBB_PHANTOM_CALL(FromCode, "cusparseLtGetVersion");
  if (!version) return kInvalidValue;
  *version = kVersion[0] * 1000 + kVersion[1] * 100 + kVersion[2];
  return kSuccess;
}

API int cusparseLtGetProperty(int type, int* value) {
  EBB_PHANTOM_CALL(FromCode, "cusparseLtGetProperty", type);
  if (!value || type < 0 || type > 2) return kInvalidValue;
  *value = kVersion[type];
  return kSuccess;
}
