// Capture of streams, and launches of graphs in them.
#include "phantom/core/graph_calls.h"
#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;

namespace {

const void* const* NodeHandles(const cudaGraphNode_t* nodes) { return reinterpret_cast<const void* const*>(nodes); }

cudaError_t DescribeStream(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                           cudaGraph_t* graph, const cudaGraphNode_t** nodes, std::size_t* count) {
  RUNTIME_STREAM(stream, handle);
  int number = 0;
  Code code = DescribeCapture(*stream, status ? &number : nullptr, id, reinterpret_cast<void**>(graph),
                              const_cast<const void* const**>(reinterpret_cast<void* const**>(nodes)), count);
  if (status) *status = static_cast<cudaStreamCaptureStatus>(number);
  return Return(code);
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  RUNTIME_DEVICE_CALL("cudaStreamBeginCapture", handle, mode);
  RUNTIME_STREAM(stream, handle);
  if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed) return Return(Code::kInvalidValue);
  return Return(BeginCapture(*stream, static_cast<CaptureMode>(mode)));
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t handle, cudaGraph_t graph, const cudaGraphNode_t* after,
                                          const cudaGraphEdgeData*, size_t count, cudaStreamCaptureMode mode) {
  RUNTIME_DEVICE_CALL("cudaStreamBeginCaptureToGraph", handle, graph, mode);
  RUNTIME_STREAM(stream, handle);
  return Return(BeginCaptureToGraph(*stream, graph, NodeHandles(after), count, static_cast<int>(mode)));
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  RUNTIME_DEVICE_CALL("cudaStreamEndCapture", handle);
  RUNTIME_STREAM(stream, handle);
  return Return(EndCaptureOf(*stream, reinterpret_cast<void**>(graph)));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  RUNTIME_DEVICE_CALL("cudaStreamIsCapturing", handle);
  return DescribeStream(handle, status, nullptr, nullptr, nullptr, nullptr);
}

#if EBBTIDE_CUDA_GENERATION == 12
// The header renames it to _v2.
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** nodes, size_t* count) {
  RUNTIME_DEVICE_CALL("cudaStreamGetCaptureInfo", handle);
  return DescribeStream(handle, status, id, graph, nodes, count);
}

cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                                        cudaGraph_t* graph, const cudaGraphNode_t** nodes,
                                        const cudaGraphEdgeData** edges, size_t* count) {
  RUNTIME_DEVICE_CALL("cudaStreamGetCaptureInfo", handle);
  if (edges) *edges = nullptr;
  return DescribeStream(handle, status, id, graph, nodes, count);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t handle, cudaGraphNode_t* after, size_t count,
                                                unsigned flags) {
  RUNTIME_DEVICE_CALL("cudaStreamUpdateCaptureDependencies", handle);
  RUNTIME_STREAM(stream, handle);
  return Return(UpdateCaptureOf(*stream, NodeHandles(after), count, flags));
}

cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t handle, cudaGraphNode_t* after,
                                                   const cudaGraphEdgeData*, size_t count, unsigned flags) {
  RUNTIME_DEVICE_CALL("cudaStreamUpdateCaptureDependencies", handle);
  RUNTIME_STREAM(stream, handle);
  return Return(UpdateCaptureOf(*stream, NodeHandles(after), count, flags));
}
#else
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  RUNTIME_DEVICE_CALL("cudaStreamGetCaptureInfo", handle);
  if (edges) *edges = nullptr;
  return DescribeStream(handle, status, id, graph, nodes, count);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t handle, cudaGraphNode_t* after, const cudaGraphEdgeData*,
                                                size_t count, unsigned flags) {
  RUNTIME_DEVICE_CALL("cudaStreamUpdateCaptureDependencies", handle);
  RUNTIME_STREAM(stream, handle);
  return Return(UpdateCaptureOf(*stream, NodeHandles(after), count, flags));
}
#endif

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* out, cudaGraph_t graph, cudaGraphInstantiateParams* p) {
  RUNTIME_DEVICE_CALL("cudaGraphInstantiateWithParams", graph);
  if (!p) return Return(Code::kInvalidValue);
  p->errNode_out = nullptr;
  p->result_out = cudaGraphInstantiateSuccess;
  return Return(InstantiateGraph(reinterpret_cast<void**>(out), graph, p->flags));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t handle) {
  RUNTIME_DEVICE_CALL("cudaGraphUpload", executable, handle);
  RUNTIME_STREAM(stream, handle);
  unsigned long long flags = 0;
  return Return(FlagsOfExecutable(executable, &flags));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  RUNTIME_DEVICE_CALL("cudaGraphLaunch", executable, handle);
  RUNTIME_STREAM(stream, handle);
  return Return(LaunchExecutable(executable, *stream));
}
