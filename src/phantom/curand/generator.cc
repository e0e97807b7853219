// Generators of cuRAND: what they generate are kernels on their streams. Written without its header, which the packages
// of CUDA 13 that torch needs do not bring; the types it defines are a pointer and enumerations.
#include <cstdint>
#include <memory>

#include "phantom/core/api.h"
#include "phantom/core/device.h"

using namespace ebbtide::phantom;

namespace {

enum Status {  // curandStatus_t
  kSuccess = 0,
  kNotInitialized = 101,
  kAllocationFailed = 102,
  kTypeError = 103,
  kOutOfRange = 104,
  kLaunchFailure = 201,
  kInitializationFailed = 203,
};

constexpr int kVersion[] = {10, 3, 5};  // that of CUDA 12.4.1

struct Generator {
  void* stream = nullptr;
};

Handles<Generator>& Generators() {
  static auto* generators = new Handles<Generator>;
  return *generators;
}

int FromCode(Code code) {
  switch (code) {
    case Code::kSuccess: return kSuccess;
    case Code::kOutOfMemory: return kAllocationFailed;
    case Code::kNotInitialized:
    case Code::kNoDevice: return kInitializationFailed;
    default: return kLaunchFailure;
  }
}

int Known(const void* generator) { return Generators().Find(generator) ? kSuccess : kNotInitialized; }

// curandRngType_t: pseudo-random from 100 to 161, quasi-random from 200 to 204.
bool IsType(int type) { return (type >= 100 && type <= 161) || (type >= 200 && type <= 204); }

}  // namespace

namespace ebbtide::phantom {

int LaunchOfHandle(CallSite& site, const char* name, void* handle) {
  if (Code code = site.Enter(handle); code != Code::kSuccess) return FromCode(code);
  std::shared_ptr<Generator> generator = Generators().Find(handle);
  return generator ? FromCode(Launch(name, generator->stream)) : kNotInitialized;
}

}  // namespace ebbtide::phantom

#define API extern "C" __attribute__((visibility("default")))

API int curandCreateGenerator(void** out, int type) {
  EBB_PHANTOM_CALL(FromCode, "curandCreateGenerator", type);
  if (!out || !IsType(type)) return kTypeError;
  if (Code code = TheDevice().contexts.Use(); code != Code::kSuccess) return FromCode(code);
  *out = Generators().Create().get();
  return kSuccess;
}

API int curandDestroyGenerator(void* generator) {
  EBB_PHANTOM_CALL(FromCode, "curandDestroyGenerator", generator);
  return Generators().Remove(generator) ? kSuccess : kNotInitialized;
}

API int curandSetStream(void* generator, void* stream) {
  EBB_PHANTOM_CALL(FromCode, "curandSetStream", generator, stream);
  std::shared_ptr<Generator> found = Generators().Find(generator);
  if (!found) return kNotInitialized;
  if (!IsStream(stream)) return kOutOfRange;
  found->stream = stream;
  return kSuccess;
}

API int curandSetPseudoRandomGeneratorSeed(void* generator, unsigned long long seed) {
  EBB_PHANTOM_CALL(FromCode, "curandSetPseudoRandomGeneratorSeed", generator, seed);
  return Known(generator);
}

API int curandSetGeneratorOffset(void* generator, unsigned long long offset) {
  EBB_PHANTOM_CALL(FromCode, "curandSetGeneratorOffset", generator, offset);
  return Known(generator);
}

API int curandSetGeneratorOrdering(void* generator, int ordering) {
  EBB_PHANTOM_CALL(FromCode, "curandSetGeneratorOrdering", generator, ordering);
  return Known(generator);
}

API int curandSetQuasiRandomGeneratorDimensions(void* generator, unsigned dimensions) {
  EBB_PHANTOM_CALL(FromCode, "curandSetQuasiRandomGeneratorDimensions", generator, dimensions);
  if (dimensions < 1 || dimensions > 20000) return kOutOfRange;
  return Known(generator);
}

API int curandGetVersion(int* version) {
  EBB_PHANTOM_CALL(FromCode, "curandGetVersion");
  if (!version) return kOutOfRange;
  *version = kVersion[0] * 1000 + kVersion[1] * 100 + kVersion[2];
  return kSuccess;
}

API int curandGetProperty(int type, int* value) {
  EBB_PHANTOM_CALL(FromCode, "curandGetProperty", type);
  if (!value || type < 0 || type > 2) return kOutOfRange;
  *value = kVersion[type];
  return kSuccess;
}
