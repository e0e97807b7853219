// Making and destroying streams and events, and what is asked of events.
#include <algorithm>

#include "phantom/core/capture.h"
#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

namespace {

CUresult CreateStream(CUstream* out, unsigned flags, int priority) {
  if (!out || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  *out = reinterpret_cast<CUstream>(TheDevice().streams.Create(flags, priority).get());
  return CUDA_SUCCESS;
}

CUresult Elapsed(float* milliseconds, CUevent from, CUevent to) {
  std::shared_ptr<Event> begin = TheDevice().events.Find(from);
  std::shared_ptr<Event> end = TheDevice().events.Find(to);
  if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
  if (!begin || !end) return CUDA_ERROR_INVALID_HANDLE;
  ebbtide::Nanos nanos = 0;
  Code code = Event::Elapsed(*begin, *end, nanos);
  if (code == Code::kSuccess) *milliseconds = static_cast<float>(static_cast<double>(nanos) * 1e-6);
  return Answer(code);
}

}  // namespace

CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  DRIVER_CONTEXT_CALL("cuStreamCreate", flags);
  return CreateStream(out, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  DRIVER_CONTEXT_CALL("cuStreamCreateWithPriority", flags, priority);
  return CreateStream(out, flags, priority);
}

CUresult cuStreamDestroy(CUstream stream) {
  DRIVER_CONTEXT_CALL("cuStreamDestroy", stream);
  return Answer(TheDevice().streams.Destroy(stream) ? Code::kSuccess : Code::kInvalidHandle);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  DRIVER_CALL("cuThreadExchangeStreamCaptureMode");
  if (!mode || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  *mode = static_cast<CUstreamCaptureMode>(ExchangeCaptureMode(static_cast<CaptureMode>(*mode)));
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* out, unsigned flags) {
  DRIVER_CONTEXT_CALL("cuEventCreate", flags);
  if (!out || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  if (flags & CU_EVENT_INTERPROCESS) {
    NotModelled("cuEventCreate of an event for several processes");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  Device& device = TheDevice();
  *out = reinterpret_cast<CUevent>(device.events.Create(device, flags).get());
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  DRIVER_CONTEXT_CALL("cuEventDestroy", event);
  return Answer(TheDevice().events.Remove(event) ? Code::kSuccess : Code::kInvalidHandle);
}

CUresult cuEventQuery(CUevent event) {
  DRIVER_CALL("cuEventQuery", event);
  std::shared_ptr<Event> found = TheDevice().events.Find(event);
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  if (found->IsCaptured()) return CUDA_ERROR_CAPTURED_EVENT;
  return found->Query() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
  DRIVER_CALL("cuEventSynchronize", event);
  std::shared_ptr<Event> found = TheDevice().events.Find(event);
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  if (found->IsCaptured()) return CUDA_ERROR_CAPTURED_EVENT;
  found->Synchronize();
  TheDevice().pools.Synchronized();
  return Answer(LostDevice());
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  DRIVER_CALL("cuEventElapsedTime", from, to);
  return Elapsed(milliseconds, from, to);
}

// The header renames the one above to _v2; programs of CUDA 12 are linked with this one.
#undef cuEventElapsedTime
extern "C" __attribute__((visibility("default"))) CUresult cuEventElapsedTime(float* milliseconds, CUevent from,
                                                                              CUevent to) {
  DRIVER_CALL("cuEventElapsedTime", from, to);
  return Elapsed(milliseconds, from, to);
}
