// Capture of streams, and launches of graphs in them.
#include "phantom/core/graph_calls.h"
#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

namespace {

const void* const* NodeHandles(const CUgraphNode* nodes) { return reinterpret_cast<const void* const*>(nodes); }

CUresult DescribeStream(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                        const CUgraphNode** nodes, std::size_t* count) {
  DRIVER_STREAM(stream, handle);
  int number = 0;
  Code code = DescribeCapture(*stream, status ? &number : nullptr, reinterpret_cast<unsigned long long*>(id),
                              reinterpret_cast<void**>(graph),
                              const_cast<const void* const**>(reinterpret_cast<void* const**>(nodes)), count);
  if (status) *status = static_cast<CUstreamCaptureStatus>(number);
  return Answer(code);
}

}  // namespace

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  DRIVER_CONTEXT_CALL("cuStreamBeginCapture", handle, mode);
  DRIVER_STREAM(stream, handle);
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return Answer(Code::kInvalidValue);
  return Answer(BeginCapture(*stream, static_cast<CaptureMode>(mode)));
}

CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode* after, const CUgraphEdgeData*,
                                     size_t count, CUstreamCaptureMode mode) {
  DRIVER_CONTEXT_CALL("cuStreamBeginCaptureToGraph", handle, graph, mode);
  DRIVER_STREAM(stream, handle);
  return Answer(BeginCaptureToGraph(*stream, graph, NodeHandles(after), count, static_cast<int>(mode)));
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  DRIVER_CONTEXT_CALL("cuStreamEndCapture", handle);
  DRIVER_STREAM(stream, handle);
  return Answer(EndCaptureOf(*stream, reinterpret_cast<void**>(graph)));
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  DRIVER_CONTEXT_CALL("cuStreamIsCapturing", handle);
  return DescribeStream(handle, status, nullptr, nullptr, nullptr, nullptr);
}

// The header renames these to their latest forms.
CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* count) {
  DRIVER_CONTEXT_CALL("cuStreamGetCaptureInfo", handle);
  if (edges) *edges = nullptr;
  return DescribeStream(handle, status, id, graph, nodes, count);
}

// As programs of CUDA 12.0 to 12.2 ask for it.
extern "C" __attribute__((visibility("default"))) CUresult __CUDA_API_PTSZ(cuStreamGetCaptureInfo_v2)(
    CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
    size_t* count) {
  DRIVER_CONTEXT_CALL("cuStreamGetCaptureInfo", handle);
  return DescribeStream(handle, status, id, graph, nodes, count);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode* after, const CUgraphEdgeData*, size_t count,
                                           unsigned flags) {
  DRIVER_CONTEXT_CALL("cuStreamUpdateCaptureDependencies", handle);
  DRIVER_STREAM(stream, handle);
  return Answer(UpdateCaptureOf(*stream, NodeHandles(after), count, flags));
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* p) {
  DRIVER_CONTEXT_CALL("cuGraphInstantiateWithParams", graph);
  if (!p) return Answer(Code::kInvalidValue);
  p->hErrNode_out = nullptr;
  p->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return Answer(InstantiateGraph(reinterpret_cast<void**>(out), graph, p->flags));
}

CUresult cuGraphUpload(CUgraphExec executable, CUstream handle) {
  DRIVER_CONTEXT_CALL("cuGraphUpload", executable, handle);
  DRIVER_STREAM(stream, handle);
  unsigned long long flags = 0;
  return Answer(FlagsOfExecutable(executable, &flags));
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream handle) {
  DRIVER_CONTEXT_CALL("cuGraphLaunch", executable, handle);
  DRIVER_STREAM(stream, handle);
  return Answer(LaunchExecutable(executable, *stream));
}
