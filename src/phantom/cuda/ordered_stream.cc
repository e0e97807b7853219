// What is asked of, or put into, an existing stream.
#include "phantom/core/graph_calls.h"
#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

CUresult cuStreamSynchronize(CUstream handle) {
  DRIVER_CONTEXT_CALL("cuStreamSynchronize", handle);
  DRIVER_STREAM(stream, handle);
  if (Code code = RefuseIfCapturing(*stream); code != Code::kSuccess) return Answer(code);
  stream->Synchronize();
  TheDevice().pools.Synchronized();
  return Answer(LostDevice());
}

CUresult cuStreamQuery(CUstream handle) {
  DRIVER_CONTEXT_CALL("cuStreamQuery", handle);
  DRIVER_STREAM(stream, handle);
  if (Code code = RefuseIfCapturing(*stream); code != Code::kSuccess) return Answer(code);
  return stream->Query() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  DRIVER_CONTEXT_CALL("cuStreamGetPriority", handle);
  DRIVER_STREAM(stream, handle);
  if (!priority) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  DRIVER_CONTEXT_CALL("cuStreamGetFlags", handle);
  DRIVER_STREAM(stream, handle);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream->flags();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  DRIVER_CONTEXT_CALL("cuStreamGetId", handle);
  DRIVER_STREAM(stream, handle);
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = static_cast<unsigned long long>(stream->id());
  return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  DRIVER_CONTEXT_CALL("cuStreamGetDevice", handle);
  DRIVER_STREAM(stream, handle);
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  DRIVER_CONTEXT_CALL("cuStreamGetCtx", handle);
  DRIVER_STREAM(stream, handle);
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = reinterpret_cast<CUcontext>(TheDevice().contexts.Current());
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
  DRIVER_CONTEXT_CALL("cuStreamWaitEvent", handle, event, flags);
  DRIVER_STREAM(stream, handle);
  std::shared_ptr<Event> found = TheDevice().events.Find(event);
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  return Answer(found->MakeWait(*stream));
}

CUresult cuEventRecord(CUevent event, CUstream handle) {
  DRIVER_CONTEXT_CALL("cuEventRecord", event, handle);
  DRIVER_STREAM(stream, handle);
  std::shared_ptr<Event> found = TheDevice().events.Find(event);
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  found->Record(*stream);
  return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned flags) {
  DRIVER_CONTEXT_CALL("cuEventRecordWithFlags", event, handle, flags);
  DRIVER_STREAM(stream, handle);
  std::shared_ptr<Event> found = TheDevice().events.Find(event);
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  if (flags & CU_EVENT_RECORD_EXTERNAL) return Answer(RecordInGraph(*stream, found));
  found->Record(*stream);
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  DRIVER_CONTEXT_CALL("cuLaunchHostFunc", handle, data);
  DRIVER_STREAM(stream, handle);
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  return Answer(SubmitHostFunction(*stream, [=] { function(data); }));
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback function, void* data, unsigned flags) {
  DRIVER_CONTEXT_CALL("cuStreamAddCallback", handle, data, flags);
  DRIVER_STREAM(stream, handle);
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  return Answer(SubmitHostFunction(*stream, [=] { function(handle, Answer(LostDevice()), data); }));
}

// A write of one word in stream order, by which kernels and hosts signal each other.
CUresult cuStreamWriteValue32(CUstream handle, CUdeviceptr to, cuuint32_t value, unsigned flags) {
  DRIVER_CONTEXT_CALL("cuStreamWriteValue32", handle, to, value, flags);
  DRIVER_STREAM(stream, handle);
  return Answer(
      Fill(TheDevice(), *stream, {.name = "cuStreamWriteValue32", .to = to, .value = value, .element = 4, .width = 1}));
}
