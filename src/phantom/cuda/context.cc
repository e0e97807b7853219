// Contexts: the primary one, those that the program makes, and the current one of each thread.
#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

namespace {

Contexts& All() { return TheDevice().contexts; }

Context* Of(CUcontext context) { return reinterpret_cast<Context*>(context); }

CUcontext Handle(Context* context) { return reinterpret_cast<CUcontext>(context); }

CUresult Create(CUcontext* out, unsigned flags, CUdevice device) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  Context* made = nullptr;
  if (Code code = All().Create(device, flags, made); code != Code::kSuccess) return Answer(code);
  All().Push(made);
  *out = Handle(made);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  DRIVER_CALL("cuDevicePrimaryCtxRetain", device);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (Code code = All().RetainPrimary(device); code != Code::kSuccess) return Answer(code);
  *out = Handle(All().primary(device));
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  DRIVER_CALL("cuDevicePrimaryCtxRelease", device);
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  return Answer(All().ReleasePrimary(device));
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  DRIVER_CALL("cuDevicePrimaryCtxReset", device);
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  ResetDevice(device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  DRIVER_CALL("cuDevicePrimaryCtxSetFlags", device, flags);
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  return Answer(All().SetPrimaryFlags(device, flags));
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  DRIVER_CALL("cuDevicePrimaryCtxGetState", device);
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  if (!IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  *active = All().PrimaryIsActive(device, *flags);
  return CUDA_SUCCESS;
}

// cuda.h renames it to _v4; _v2 is what older programs are linked with.
CUresult cuCtxCreate(CUcontext* out, CUctxCreateParams* parameters, unsigned flags, CUdevice device) {
  DRIVER_CALL("cuCtxCreate", flags, device);
  if (parameters && (parameters->numExecAffinityParams > 0 || parameters->cigParams)) {
    NotModelled("cuCtxCreate with parameters");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return Create(out, flags, device);
}

extern "C" __attribute__((visibility("default"))) CUresult cuCtxCreate_v2(CUcontext* out, unsigned flags,
                                                                          CUdevice device) {
  DRIVER_CALL("cuCtxCreate", flags, device);
  return Create(out, flags, device);
}

CUresult cuCtxDestroy(CUcontext context) {
  DRIVER_CALL("cuCtxDestroy", context);
  return Answer(All().Destroy(Of(context)));
}

CUresult cuCtxPushCurrent(CUcontext context) {
  DRIVER_CALL("cuCtxPushCurrent", context);
  if (!All().IsLive(Of(context))) return CUDA_ERROR_INVALID_CONTEXT;
  All().Push(Of(context));
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* out) {
  DRIVER_CALL("cuCtxPopCurrent");
  Context* top = nullptr;
  if (Code code = All().Pop(top); code != Code::kSuccess) return Answer(code);
  if (out) *out = Handle(top);
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  DRIVER_CALL("cuCtxSetCurrent", context);
  if (context && !All().IsLive(Of(context))) return CUDA_ERROR_INVALID_CONTEXT;
  All().SetCurrent(Of(context));
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* out) {
  DRIVER_CALL("cuCtxGetCurrent");
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = Handle(All().Current());
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  DRIVER_CONTEXT_CALL("cuCtxGetDevice");
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = CurrentGpu();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned* flags) {
  DRIVER_CONTEXT_CALL("cuCtxGetFlags");
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = All().Current()->flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  DRIVER_CALL("cuCtxGetId", context);
  Context* asked = context ? Of(context) : All().Current();
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  if (!asked || !All().IsLive(asked)) return CUDA_ERROR_INVALID_CONTEXT;
  *id = asked->id;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned* version) {
  DRIVER_CALL("cuCtxGetApiVersion", context);
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  DRIVER_CONTEXT_CALL("cuCtxSynchronize");
  SynchronizeDevice();
  return Answer(LostDevice());
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  DRIVER_CONTEXT_CALL("cuCtxGetStreamPriorityRange");
  if (least) *least = kLeastPriority;
  if (greatest) *greatest = kGreatestPriority;
  return CUDA_SUCCESS;
}

// Peers can always be reached, so there is nothing to switch.
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  DRIVER_CONTEXT_CALL("cuCtxEnablePeerAccess", peer, flags);
  return All().IsLive(Of(peer)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  DRIVER_CONTEXT_CALL("cuCtxDisablePeerAccess", peer);
  return All().IsLive(Of(peer)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
