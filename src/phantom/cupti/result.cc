// CUPTI is there by its version alone, so that a profiler finds that it cannot trace this device and goes on without;
// the real library does not survive a driver without the undocumented tables.
#include "phantom/core/api.h"

using namespace ebbtide::phantom;

namespace {

constexpr int kSuccess = 0, kInvalidParameter = 1, kNotInitialized = 15, kNotSupported = 27, kUnknown = 999;

int FromCode(Code code) { return code == Code::kSuccess ? kSuccess : kUnknown; }

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

API int cuptiGetVersion(unsigned* version) {
  EBB_PHANTOM_CALL(FromCode, "cuptiGetVersion");
  if (!version) return kInvalidParameter;
  *version = EBBTIDE_CUDA_GENERATION >= 13 ? 130202 : 22;  // CUPTI_API_VERSION of CUDA 13.2 and 12.4
  return kSuccess;
}

API int cuptiGetResultString(int result, const char** text) {
  if (!text) return kInvalidParameter;
  switch (result) {
    case kSuccess: *text = "CUPTI_SUCCESS"; break;
    case kInvalidParameter: *text = "CUPTI_ERROR_INVALID_PARAMETER"; break;
    case kNotInitialized: *text = "CUPTI_ERROR_NOT_INITIALIZED"; break;
    case kNotSupported: *text = "CUPTI_ERROR_NOT_SUPPORTED"; break;
    default: *text = "CUPTI_ERROR_UNKNOWN"; break;
  }
  return kSuccess;
}

API int cuptiGetErrorMessage(int result, const char** text) { return cuptiGetResultString(result, text); }
