// What a call on the phantom may answer. The numbers are those of CUresult and cudaError_t, which agree since CUDA 10.1
// but for the few that cudart/error.h translates.
#pragma once

#include <optional>
#include <string_view>

namespace ebbtide::phantom {

enum class Code : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kInvalidConfiguration = 9,  // of the runtime; the driver says kInvalidValue
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kMapFailed = 205,
  kUnmapFailed = 206,
  kAlreadyMapped = 208,
  kNotMapped = 211,
  kPeerAccessUnsupported = 217,
  kFileNotFound = 301,
  kOperatingSystem = 304,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kPeerAccessAlreadyEnabled = 704,
  kPeerAccessNotEnabled = 705,
  kContextIsDestroyed = 709,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kLaunchFailed = 719,
  kNotPermitted = 800,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCapturedEvent = 907,
  kCaptureWrongThread = 908,
  kGraphUpdateFailure = 910,
  kUnknown = 999,
};

// The words of EBBTIDE_PHANTOM_FAIL: "out_of_memory", "lost_device", ... or a number.
std::optional<Code> CodeFromWord(std::string_view word);

// After these the device is lost to the process: every later call gives the same.
constexpr bool IsSticky(Code code) { return code == Code::kIllegalAddress || code == Code::kLaunchFailed; }

}  // namespace ebbtide::phantom
