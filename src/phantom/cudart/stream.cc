// Making and destroying streams and events, and what is asked of events.
#include <algorithm>

#include "phantom/core/capture.h"
#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;

namespace {

cudaError_t CreateStream(cudaStream_t* out, unsigned flags, int priority) {
  if (!out || flags > cudaStreamNonBlocking) return Return(Code::kInvalidValue);
  priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  *out = reinterpret_cast<cudaStream_t>(TheDevice().streams.Create(flags, priority).get());
  return cudaSuccess;
}

cudaError_t CreateEvent(cudaEvent_t* out, unsigned flags) {
  if (!out || flags > 7) return Return(Code::kInvalidValue);
  if (flags & cudaEventInterprocess) {
    NotModelled("cudaEventCreate of an event for several processes");
    return Return(Code::kNotSupported);
  }
  Device& device = TheDevice();
  *out = reinterpret_cast<cudaEvent_t>(device.events.Create(device, flags).get());
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaStreamCreate(cudaStream_t* out) {
  RUNTIME_DEVICE_CALL("cudaStreamCreate");
  return CreateStream(out, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  RUNTIME_DEVICE_CALL("cudaStreamCreateWithFlags", flags);
  return CreateStream(out, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  RUNTIME_DEVICE_CALL("cudaStreamCreateWithPriority", flags, priority);
  return CreateStream(out, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaStreamDestroy", stream);
  return Return(TheDevice().streams.Destroy(stream) ? Code::kSuccess : Code::kInvalidHandle);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  RUNTIME_DEVICE_CALL("cudaDeviceGetStreamPriorityRange");
  if (least) *least = kLeastPriority;
  if (greatest) *greatest = kGreatestPriority;
  return cudaSuccess;
}

cudaError_t cudaCtxResetPersistingL2Cache() {
  RUNTIME_DEVICE_CALL("cudaCtxResetPersistingL2Cache");
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  RUNTIME_CALL("cudaThreadExchangeStreamCaptureMode");
  if (!mode || *mode < cudaStreamCaptureModeGlobal || *mode > cudaStreamCaptureModeRelaxed)
    return Return(Code::kInvalidValue);
  *mode = static_cast<cudaStreamCaptureMode>(ExchangeCaptureMode(static_cast<CaptureMode>(*mode)));
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* out) {
  RUNTIME_DEVICE_CALL("cudaEventCreate");
  return CreateEvent(out, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  RUNTIME_DEVICE_CALL("cudaEventCreateWithFlags", flags);
  return CreateEvent(out, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  RUNTIME_DEVICE_CALL("cudaEventDestroy", event);
  return Return(TheDevice().events.Remove(event) ? Code::kSuccess : Code::kInvalidHandle);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  RUNTIME_DEVICE_CALL("cudaEventQuery", event);
  std::shared_ptr<Event> found = TheDevice().events.Find(event);
  if (!found) return Return(Code::kInvalidHandle);
  if (found->IsCaptured()) return Return(Code::kCapturedEvent);
  return Return(found->Query() ? Code::kSuccess : Code::kNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  RUNTIME_DEVICE_CALL("cudaEventSynchronize", event);
  std::shared_ptr<Event> found = TheDevice().events.Find(event);
  if (!found) return Return(Code::kInvalidHandle);
  if (found->IsCaptured()) return Return(Code::kCapturedEvent);
  found->Synchronize();
  TheDevice().pools.Synchronized();
  return Return(LostDevice());
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  RUNTIME_DEVICE_CALL("cudaEventElapsedTime", from, to);
  std::shared_ptr<Event> begin = TheDevice().events.Find(from);
  std::shared_ptr<Event> end = TheDevice().events.Find(to);
  if (!milliseconds) return Return(Code::kInvalidValue);
  if (!begin || !end) return Return(Code::kInvalidHandle);
  ebbtide::Nanos nanos = 0;
  Code code = Event::Elapsed(*begin, *end, nanos);
  if (code == Code::kSuccess) *milliseconds = static_cast<float>(static_cast<double>(nanos) * 1e-6);
  return Return(code);
}

#if EBBTIDE_CUDA_GENERATION == 12
// CUDA 12.8 has the call under this name too; the headers that this is compiled with are older.
extern "C" __attribute__((visibility("default"))) cudaError_t cudaEventElapsedTime_v2(float* milliseconds,
                                                                                      cudaEvent_t from,
                                                                                      cudaEvent_t to) {
  return cudaEventElapsedTime(milliseconds, from, to);
}
#endif
