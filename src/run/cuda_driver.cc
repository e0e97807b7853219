#include "run/cuda_driver.h"

#include <dlfcn.h>

namespace ebbtide::run {
namespace {

template <class Function>
bool Find(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Result<CudaDriver> Load() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return Fail("device cuda: this machine has no CUDA driver (libcuda.so.1)");
  CudaDriver d{};
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    if (!Find(library, function, name) && !missing) missing = name;
  };
  find(d.Init, "cuInit");
  find(d.DeviceGet, "cuDeviceGet");
  find(d.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  find(d.DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
  find(d.CtxPushCurrent, "cuCtxPushCurrent_v2");
  find(d.CtxPopCurrent, "cuCtxPopCurrent_v2");
  find(d.MemAlloc, "cuMemAlloc_v2");
  find(d.MemFree, "cuMemFree_v2");
  find(d.MemHostRegister, "cuMemHostRegister_v2");
  find(d.MemHostUnregister, "cuMemHostUnregister");
  find(d.MemcpyAsync, "cuMemcpyAsync");
  find(d.StreamCreate, "cuStreamCreate");
  find(d.StreamDestroy, "cuStreamDestroy_v2");
  find(d.StreamWaitEvent, "cuStreamWaitEvent");
  find(d.StreamSynchronize, "cuStreamSynchronize");
  find(d.EventCreate, "cuEventCreate");
  find(d.EventDestroy, "cuEventDestroy_v2");
  find(d.EventRecord, "cuEventRecord");
  find(d.EventSynchronize, "cuEventSynchronize");
  find(d.EventElapsedTime, "cuEventElapsedTime");
  find(d.GetErrorName, "cuGetErrorName");
  if (missing) return Fail("device cuda: the CUDA driver has no {}; expected a newer one", missing);
  return d;
}

}  // namespace

std::string CudaDriver::NameOf(int code) const {
  const char* name = nullptr;
  return GetErrorName(code, &name) == 0 && name ? name : fmt::format("CUDA error {}", code);
}

Result<const CudaDriver*> LoadCudaDriver() {
  static const Result<CudaDriver> driver = Load();
  if (!driver) return tl::unexpected<Error>(driver.error());
  return &*driver;
}

const PhantomCalls& Phantom() {
  static const PhantomCalls calls = [] {
    PhantomCalls out;
    Find(RTLD_DEFAULT, out.begin, "ebbtide_phantom_begin");
    Find(RTLD_DEFAULT, out.end, "ebbtide_phantom_end");
    Find(RTLD_DEFAULT, out.declare, "ebbtide_phantom_declare");
    return out;
  }();
  return calls;
}

}  // namespace ebbtide::run
