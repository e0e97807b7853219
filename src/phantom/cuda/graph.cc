// Graphs: making, instantiating and asking about them.
#include "phantom/core/graph_calls.h"
#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

namespace {

void** GraphOut(void* pointer) { return static_cast<void**>(pointer); }
const void* const* NodesIn(const CUgraphNode* nodes) { return reinterpret_cast<const void* const*>(nodes); }

}  // namespace

CUresult cuGraphCreate(CUgraph* out, unsigned flags) {
  DRIVER_CONTEXT_CALL("cuGraphCreate", flags);
  return Answer(flags == 0 ? CreateGraph(GraphOut(out)) : Code::kInvalidValue);
}

CUresult cuGraphClone(CUgraph* out, CUgraph graph) {
  DRIVER_CONTEXT_CALL("cuGraphClone", graph);
  return Answer(CloneGraph(GraphOut(out), graph));
}

CUresult cuGraphDestroy(CUgraph graph) {
  DRIVER_CONTEXT_CALL("cuGraphDestroy", graph);
  return Answer(DestroyGraph(graph));
}

// The header renames it to cuGraphInstantiateWithFlags, and those below to their second forms.
CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  DRIVER_CONTEXT_CALL("cuGraphInstantiate", graph, flags);
  return Answer(InstantiateGraph(GraphOut(out), graph, flags));
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
  DRIVER_CONTEXT_CALL("cuGraphExecDestroy", executable);
  return Answer(DestroyExecutable(executable));
}

CUresult cuGraphExecGetFlags(CUgraphExec executable, unsigned long long* flags) {
  DRIVER_CONTEXT_CALL("cuGraphExecGetFlags", executable);
  return Answer(FlagsOfExecutable(executable, flags));
}

CUresult cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  DRIVER_CONTEXT_CALL("cuGraphExecUpdate", executable, graph);
  int result = 0;
  Code code = UpdateExecutable(executable, graph, result);
  if (info) *info = {static_cast<CUgraphExecUpdateResult>(result), nullptr, nullptr};
  return Answer(code);
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  DRIVER_CONTEXT_CALL("cuGraphGetNodes", graph);
  return Answer(ListNodes(graph, NodeList::kAll, GraphOut(nodes), count));
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  DRIVER_CONTEXT_CALL("cuGraphGetRootNodes", graph);
  return Answer(ListNodes(graph, NodeList::kRoots, GraphOut(nodes), count));
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  DRIVER_CONTEXT_CALL("cuGraphNodeGetType", node);
  int number = 0;
  Code code = type ? TypeOfNode(node, number) : Code::kInvalidValue;
  if (code == Code::kSuccess) *type = static_cast<CUgraphNodeType>(number);
  return Answer(code);
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned flags) {
  DRIVER_CONTEXT_CALL("cuGraphDebugDotPrint", graph, path, flags);
  return Answer(PrintGraph(graph, path));
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  DRIVER_CONTEXT_CALL("cuGraphGetEdges", graph);
  if (data && count) std::fill_n(data, *count, CUgraphEdgeData{});
  return Answer(ListEdges(graph, GraphOut(from), GraphOut(to), count));
}
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data, size_t* count) {
  DRIVER_CONTEXT_CALL("cuGraphNodeGetDependencies", node);
  if (data && count) std::fill_n(data, *count, CUgraphEdgeData{});
  return Answer(ListDependencies(node, GraphOut(out), count));
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data, size_t* count) {
  DRIVER_CONTEXT_CALL("cuGraphNodeGetDependentNodes", node);
  if (data && count) std::fill_n(data, *count, CUgraphEdgeData{});
  return Answer(ListDependents(node, GraphOut(out), count));
}
CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData*,
                                size_t count) {
  DRIVER_CONTEXT_CALL("cuGraphAddDependencies", graph);
  return Answer(AddEdges(graph, NodesIn(from), NodesIn(to), count));
}
