// Which functions of the driver there are, by their names in libcuda.
#include "device/cuda/driver.h"

#include "device/cuda/library.h"

namespace ebbtide {
namespace {

Result<CudaDriver> Load() {
  EBB_ASSIGN_OR_RETURN(CudaLibrary library, CudaLibrary::Open());
  CudaDriver d{};
  library.Find(d.Init, "cuInit");
  library.Find(d.DeviceGet, "cuDeviceGet");
  library.Find(d.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  library.Find(d.DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
  library.Find(d.CtxPushCurrent, "cuCtxPushCurrent_v2");
  library.Find(d.CtxPopCurrent, "cuCtxPopCurrent_v2");
  library.Find(d.MemAlloc, "cuMemAlloc_v2");
  library.Find(d.MemFree, "cuMemFree_v2");
  library.Find(d.MemHostRegister, "cuMemHostRegister_v2");
  library.Find(d.MemHostUnregister, "cuMemHostUnregister");
  library.Find(d.MemcpyAsync, "cuMemcpyAsync");
  library.Find(d.StreamCreate, "cuStreamCreate");
  library.Find(d.StreamDestroy, "cuStreamDestroy_v2");
  library.Find(d.StreamWaitEvent, "cuStreamWaitEvent");
  library.Find(d.StreamSynchronize, "cuStreamSynchronize");
  library.Find(d.EventCreate, "cuEventCreate");
  library.Find(d.EventDestroy, "cuEventDestroy_v2");
  library.Find(d.EventRecord, "cuEventRecord");
  library.Find(d.EventSynchronize, "cuEventSynchronize");
  library.Find(d.EventElapsedTime, "cuEventElapsedTime");
  library.Find(d.StreamBeginCapture, "cuStreamBeginCapture_v2");
  library.Find(d.StreamEndCapture, "cuStreamEndCapture");
  library.Find(d.GraphInstantiate, "cuGraphInstantiateWithFlags");
  library.Find(d.GraphLaunch, "cuGraphLaunch");
  library.Find(d.GraphDestroy, "cuGraphDestroy");
  library.Find(d.GraphExecDestroy, "cuGraphExecDestroy");
  library.Find(d.GetErrorName, "cuGetErrorName");
  EBB_RETURN_IF_ERROR(library.AllFound());
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
    out.begin = FindInProcess<decltype(out.begin)>("ebbtide_phantom_begin");
    out.end = FindInProcess<decltype(out.end)>("ebbtide_phantom_end");
    out.declare = FindInProcess<decltype(out.declare)>("ebbtide_phantom_declare");
    return out;
  }();
  return calls;
}

}  // namespace ebbtide
