// Graphs: making, instantiating and asking about them.
#include "phantom/core/graph_calls.h"
#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;

namespace {

void** GraphOut(void* pointer) { return static_cast<void**>(pointer); }
const void* const* NodesIn(const cudaGraphNode_t* nodes) { return reinterpret_cast<const void* const*>(nodes); }

}  // namespace

cudaError_t cudaGraphCreate(cudaGraph_t* out, unsigned flags) {
  RUNTIME_DEVICE_CALL("cudaGraphCreate", flags);
  return Return(flags == 0 ? CreateGraph(GraphOut(out)) : Code::kInvalidValue);
}

cudaError_t cudaGraphClone(cudaGraph_t* out, cudaGraph_t graph) {
  RUNTIME_DEVICE_CALL("cudaGraphClone", graph);
  return Return(CloneGraph(GraphOut(out), graph));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  RUNTIME_DEVICE_CALL("cudaGraphDestroy", graph);
  return Return(DestroyGraph(graph));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  RUNTIME_DEVICE_CALL("cudaGraphInstantiate", graph, flags);
  return Return(InstantiateGraph(GraphOut(out), graph, flags));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  RUNTIME_DEVICE_CALL("cudaGraphInstantiateWithFlags", graph, flags);
  return Return(InstantiateGraph(GraphOut(out), graph, flags));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  RUNTIME_DEVICE_CALL("cudaGraphExecDestroy", executable);
  return Return(DestroyExecutable(executable));
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t executable, unsigned long long* flags) {
  RUNTIME_DEVICE_CALL("cudaGraphExecGetFlags", executable);
  return Return(FlagsOfExecutable(executable, flags));
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
  RUNTIME_DEVICE_CALL("cudaGraphExecUpdate", executable, graph);
  int result = 0;
  Code code = UpdateExecutable(executable, graph, result);
  if (info) *info = {static_cast<cudaGraphExecUpdateResult>(result), nullptr, nullptr};
  return Return(code);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  RUNTIME_DEVICE_CALL("cudaGraphGetNodes", graph);
  return Return(ListNodes(graph, NodeList::kAll, GraphOut(nodes), count));
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  RUNTIME_DEVICE_CALL("cudaGraphGetRootNodes", graph);
  return Return(ListNodes(graph, NodeList::kRoots, GraphOut(nodes), count));
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  RUNTIME_DEVICE_CALL("cudaGraphNodeGetType", node);
  int number = 0;
  Code code = type ? TypeOfNode(node, number) : Code::kInvalidValue;
  if (code == Code::kSuccess) *type = static_cast<cudaGraphNodeType>(number);
  return Return(code);
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned flags) {
  RUNTIME_DEVICE_CALL("cudaGraphDebugDotPrint", graph, path, flags);
  return Return(PrintGraph(graph, path));
}

// CUDA 13 has one form of these, with the data of edges, which says nothing here; CUDA 12 has both.
#define EDGES(suffix)                                                                                               \
  cudaError_t cudaGraphGetEdges##suffix(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,              \
                                        cudaGraphEdgeData* data, size_t* count) {                                   \
    RUNTIME_DEVICE_CALL("cudaGraphGetEdges", graph);                                                                \
    if (data && count) std::fill_n(data, *count, cudaGraphEdgeData{});                                              \
    return Return(ListEdges(graph, GraphOut(from), GraphOut(to), count));                                           \
  }                                                                                                                 \
  cudaError_t cudaGraphNodeGetDependencies##suffix(cudaGraphNode_t node, cudaGraphNode_t* out,                      \
                                                   cudaGraphEdgeData* data, size_t* count) {                        \
    RUNTIME_DEVICE_CALL("cudaGraphNodeGetDependencies", node);                                                      \
    if (data && count) std::fill_n(data, *count, cudaGraphEdgeData{});                                              \
    return Return(ListDependencies(node, GraphOut(out), count));                                                    \
  }                                                                                                                 \
  cudaError_t cudaGraphNodeGetDependentNodes##suffix(cudaGraphNode_t node, cudaGraphNode_t* out,                    \
                                                     cudaGraphEdgeData* data, size_t* count) {                      \
    RUNTIME_DEVICE_CALL("cudaGraphNodeGetDependentNodes", node);                                                    \
    if (data && count) std::fill_n(data, *count, cudaGraphEdgeData{});                                              \
    return Return(ListDependents(node, GraphOut(out), count));                                                      \
  }                                                                                                                 \
  cudaError_t cudaGraphAddDependencies##suffix(cudaGraph_t graph, const cudaGraphNode_t* from,                      \
                                               const cudaGraphNode_t* to, const cudaGraphEdgeData*, size_t count) { \
    RUNTIME_DEVICE_CALL("cudaGraphAddDependencies", graph);                                                         \
    return Return(AddEdges(graph, NodesIn(from), NodesIn(to), count));                                              \
  }

#if EBBTIDE_CUDA_GENERATION == 12
EDGES(_v2)

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, size_t* count) {
  return cudaGraphGetEdges_v2(graph, from, to, nullptr, count);
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* out, size_t* count) {
  return cudaGraphNodeGetDependencies_v2(node, out, nullptr, count);
}
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* out, size_t* count) {
  return cudaGraphNodeGetDependentNodes_v2(node, out, nullptr, count);
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                     size_t count) {
  return cudaGraphAddDependencies_v2(graph, from, to, nullptr, count);
}
#else
EDGES()
#endif
#undef EDGES
