// What is asked of, or put into, an existing stream.
#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  RUNTIME_DEVICE_CALL("cudaStreamSynchronize", handle);
  RUNTIME_STREAM(stream, handle);
  stream->Synchronize();
  TheDevice().pools.Synchronized();
  return Return(LostDevice());
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  RUNTIME_DEVICE_CALL("cudaStreamQuery", handle);
  RUNTIME_STREAM(stream, handle);
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
  found->MakeWait(*stream);
  return cudaSuccess;
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

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  RUNTIME_DEVICE_CALL("cudaStreamIsCapturing", handle);
  RUNTIME_STREAM(stream, handle);
  if (!status) return Return(Code::kInvalidValue);
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

namespace {

cudaError_t NoCapture(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id) {
  RUNTIME_STREAM(stream, handle);
  if (!status) return Return(Code::kInvalidValue);
  *status = cudaStreamCaptureStatusNone;
  if (id) *id = 0;
  return cudaSuccess;
}

}  // namespace

#if EBBTIDE_CUDA_GENERATION == 12
// The header renames it to _v2.
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t*, const cudaGraphNode_t**, size_t*) {
  RUNTIME_DEVICE_CALL("cudaStreamGetCaptureInfo", stream);
  return NoCapture(stream, status, id);
}

cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                        cudaGraph_t*, const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*) {
  RUNTIME_DEVICE_CALL("cudaStreamGetCaptureInfo", stream);
  return NoCapture(stream, status, id);
}
#else
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t*, const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*) {
  RUNTIME_DEVICE_CALL("cudaStreamGetCaptureInfo", stream);
  return NoCapture(stream, status, id);
}
#endif
