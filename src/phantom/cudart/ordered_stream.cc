// What is asked of, or put into, an existing stream.
#include "phantom/core/graph_calls.h"
#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  RUNTIME_DEVICE_CALL("cudaStreamSynchronize", handle);
  RUNTIME_STREAM(stream, handle);
  if (Code code = RefuseIfCapturing(*stream); code != Code::kSuccess) return Return(code);
  stream->Synchronize();
  TheDevice().pools.Synchronized();
  return Return(LostDevice());
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  RUNTIME_DEVICE_CALL("cudaStreamQuery", handle);
  RUNTIME_STREAM(stream, handle);
  if (Code code = RefuseIfCapturing(*stream); code != Code::kSuccess) return Return(code);
  return Return(stream->Query() ? Code::kSuccess : Code::kNotReady);
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  RUNTIME_DEVICE_CALL("cudaStreamGetPriority", handle);
  RUNTIME_STREAM(stream, handle);
  if (!priority) return Return(Code::kInvalidValue);
  *priority = stream->priority();
  return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  RUNTIME_DEVICE_CALL("cudaStreamGetFlags", handle);
  RUNTIME_STREAM(stream, handle);
  if (!flags) return Return(Code::kInvalidValue);
  *flags = stream->flags();
  return cudaSuccess;
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  RUNTIME_DEVICE_CALL("cudaStreamGetId", handle);
  RUNTIME_STREAM(stream, handle);
  if (!id) return Return(Code::kInvalidValue);
  *id = static_cast<unsigned long long>(stream->id());
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  RUNTIME_DEVICE_CALL("cudaStreamWaitEvent", handle, event, flags);
  RUNTIME_STREAM(stream, handle);
  std::shared_ptr<Event> found = TheDevice().events.Find(event);
  if (!found) return Return(Code::kInvalidHandle);
  return Return(found->MakeWait(*stream));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  RUNTIME_DEVICE_CALL("cudaEventRecord", event, handle);
  RUNTIME_STREAM(stream, handle);
  std::shared_ptr<Event> found = TheDevice().events.Find(event);
  if (!found) return Return(Code::kInvalidHandle);
  found->Record(*stream);
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned flags) {
  RUNTIME_DEVICE_CALL("cudaEventRecordWithFlags", event, handle, flags);
  RUNTIME_STREAM(stream, handle);
  std::shared_ptr<Event> found = TheDevice().events.Find(event);
  if (!found) return Return(Code::kInvalidHandle);
  if (flags & cudaEventRecordExternal) return Return(RecordInGraph(*stream, found));
  found->Record(*stream);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  RUNTIME_DEVICE_CALL("cudaLaunchHostFunc", handle, data);
  RUNTIME_STREAM(stream, handle);
  if (!function) return Return(Code::kInvalidValue);
  return Return(SubmitHostFunction(*stream, [=] { function(data); }));
}

cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t function, void* data, unsigned flags) {
  RUNTIME_DEVICE_CALL("cudaStreamAddCallback", handle, data, flags);
  RUNTIME_STREAM(stream, handle);
  if (!function) return Return(Code::kInvalidValue);
  return Return(SubmitHostFunction(*stream, [=] { function(handle, static_cast<cudaError_t>(LostDevice()), data); }));
}
