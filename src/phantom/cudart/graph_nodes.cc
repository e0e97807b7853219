// Nodes that a program adds to a graph by hand. Memory and conditions as nodes are not modelled.
#include "phantom/core/graph_calls.h"
#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;

namespace {

cudaError_t AddToGraph(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count,
                       const std::function<Code(Stream&)>& submit) {
  void* node = nullptr;
  Code code =
      out ? AddNode(graph, reinterpret_cast<const void* const*>(after), count, submit, &node) : Code::kInvalidValue;
  if (code == Code::kSuccess) *out = static_cast<cudaGraphNode_t>(node);
  return Return(code);
}

}  // namespace

#define GRAPH_NODE cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count

cudaError_t cudaGraphAddKernelNode(GRAPH_NODE, const cudaKernelNodeParams* p) {
  RUNTIME_DEVICE_CALL("cudaGraphAddKernelNode", graph);
  Kernel* kernel = p ? KernelOf(p->func) : nullptr;
  if (!kernel) return Return(kInvalidDeviceFunction);
  LaunchShape shape{
      {p->gridDim.x, p->gridDim.y, p->gridDim.z}, {p->blockDim.x, p->blockDim.y, p->blockDim.z}, p->sharedMemBytes};
  return AddToGraph(out, graph, after, count,
                    [&](Stream& stream) { return LaunchKernel(TheDevice(), *kernel, shape, stream); });
}

cudaError_t cudaGraphAddMemcpyNode1D(GRAPH_NODE, void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  RUNTIME_DEVICE_CALL("cudaGraphAddMemcpyNode1D", graph, to, from, bytes);
  return AddToGraph(out, graph, after, count, [&](Stream& stream) {
    return Copy(TheDevice(), stream,
                {.name = "cudaGraphAddMemcpyNode1D",
                 .to = AddressOf(to),
                 .from = AddressOf(from),
                 .width = static_cast<ebbtide::Bytes>(bytes)});
  });
}

cudaError_t cudaGraphAddMemsetNode(GRAPH_NODE, const cudaMemsetParams* p) {
  RUNTIME_DEVICE_CALL("cudaGraphAddMemsetNode", graph);
  if (!p) return Return(Code::kInvalidValue);
  return AddToGraph(out, graph, after, count, [&](Stream& stream) {
    return Fill(TheDevice(), stream,
                {.name = "cudaGraphAddMemsetNode",
                 .to = AddressOf(p->dst),
                 .value = p->value,
                 .element = p->elementSize,
                 .width = static_cast<ebbtide::Bytes>(p->width),
                 .height = static_cast<ebbtide::Bytes>(p->height),
                 .pitch = static_cast<ebbtide::Bytes>(p->pitch)});
  });
}

cudaError_t cudaGraphAddHostNode(GRAPH_NODE, const cudaHostNodeParams* p) {
  RUNTIME_DEVICE_CALL("cudaGraphAddHostNode", graph);
  if (!p || !p->fn) return Return(Code::kInvalidValue);
  return AddToGraph(out, graph, after, count, [function = p->fn, data = p->userData](Stream& stream) {
    return SubmitHostFunction(stream, [=] { function(data); });
  });
}

cudaError_t cudaGraphAddEmptyNode(GRAPH_NODE) {
  RUNTIME_DEVICE_CALL("cudaGraphAddEmptyNode", graph);
  return AddToGraph(out, graph, after, count, [](Stream& stream) {
    stream.Submit({.name = "empty", .kind = OperationKind::kEmpty});
    return Code::kSuccess;
  });
}

cudaError_t cudaGraphAddChildGraphNode(GRAPH_NODE, cudaGraph_t child) {
  RUNTIME_DEVICE_CALL("cudaGraphAddChildGraphNode", graph, child);
  void* node = nullptr;
  Code code =
      out ? AddChild(graph, reinterpret_cast<const void* const*>(after), count, child, &node) : Code::kInvalidValue;
  if (code == Code::kSuccess) *out = static_cast<cudaGraphNode_t>(node);
  return Return(code);
}
#undef GRAPH_NODE
