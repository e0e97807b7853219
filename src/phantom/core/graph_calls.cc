// Handles are looked up, lists are cut to what the caller has room for.
#include "phantom/core/graph_calls.h"

#include <cstdio>
#include <optional>

#include "phantom/core/device.h"

namespace ebbtide::phantom {
namespace {

using Nodes = std::vector<const GraphNode*>;

Code Give(const Nodes& nodes, void** out, std::size_t* count) {
  if (!count) return Code::kInvalidValue;
  if (out) {
    for (std::size_t i = 0; i < *count; ++i) out[i] = i < nodes.size() ? const_cast<GraphNode*>(nodes[i]) : nullptr;
  }
  *count = out ? std::min(*count, nodes.size()) : nodes.size();
  return Code::kSuccess;
}

std::optional<Nodes> NodesOf(const void* const* handles, std::size_t count) {
  Nodes nodes;
  if (count > 0 && !handles) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    nodes.push_back(Graph::FindNode(handles[i]));
    if (!nodes.back()) return std::nullopt;
  }
  return nodes;
}

}  // namespace

Code CreateGraph(void** out) {
  if (!out) return Code::kInvalidValue;
  *out = TheGraphs().Create().get();
  return Code::kSuccess;
}

Code CloneGraph(void** out, const void* graph) {
  std::shared_ptr<Graph> found = TheGraphs().Find(graph);
  if (!out || !found) return Code::kInvalidValue;
  std::shared_ptr<Graph> copy = TheGraphs().Create();
  copy->Append(*found, {});
  *out = copy.get();
  return Code::kSuccess;
}

Code DestroyGraph(const void* graph) { return TheGraphs().Remove(graph) ? Code::kSuccess : Code::kInvalidValue; }

Code InstantiateGraph(void** out, const void* graph, unsigned long long flags) {
  std::shared_ptr<Graph> found = TheGraphs().Find(graph);
  if (!out || !found) return Code::kInvalidValue;
  *out = TheExecutableGraphs().Create(ExecutableGraph{found->Copy(), flags}).get();
  return Code::kSuccess;
}

Code DestroyExecutable(const void* executable) {
  return TheExecutableGraphs().Remove(executable) ? Code::kSuccess : Code::kInvalidValue;
}

Code FlagsOfExecutable(const void* executable, unsigned long long* flags) {
  std::shared_ptr<ExecutableGraph> found = TheExecutableGraphs().Find(executable);
  if (!found || !flags) return Code::kInvalidValue;
  *flags = found->flags;
  return Code::kSuccess;
}

Code LaunchExecutable(const void* executable, Stream& stream) {
  std::shared_ptr<ExecutableGraph> found = TheExecutableGraphs().Find(executable);
  return found ? LaunchGraph(TheDevice(), found->graph, stream) : Code::kInvalidValue;
}

Code UpdateExecutable(const void* executable, const void* graph, int& result) {
  constexpr int kTopologyChanged = 2;
  std::shared_ptr<ExecutableGraph> found = TheExecutableGraphs().Find(executable);
  std::shared_ptr<Graph> other = TheGraphs().Find(graph);
  if (!found || !other) return Code::kInvalidValue;
  result = found->graph->HasShapeOf(*other) ? 0 : kTopologyChanged;
  if (result != 0) return Code::kGraphUpdateFailure;
  found->graph = other->Copy();
  return Code::kSuccess;
}

Code ListNodes(const void* graph, NodeList which, void** out, std::size_t* count) {
  std::shared_ptr<Graph> found = TheGraphs().Find(graph);
  if (!found) return Code::kInvalidValue;
  Nodes nodes;
  for (const auto& node : found->nodes())
    if (which == NodeList::kAll || node->after.empty()) nodes.push_back(node.get());
  return Give(nodes, out, count);
}

Code ListDependencies(const void* node, void** out, std::size_t* count) {
  const GraphNode* found = Graph::FindNode(node);
  return found ? Give(found->after, out, count) : Code::kInvalidValue;
}

Code ListDependents(const void* node, void** out, std::size_t* count) {
  const GraphNode* found = Graph::FindNode(node);
  if (!found) return Code::kInvalidValue;
  Nodes nodes;
  for (const auto& other : found->graph->nodes())
    if (std::find(other->after.begin(), other->after.end(), found) != other->after.end()) nodes.push_back(other.get());
  return Give(nodes, out, count);
}

Code ListEdges(const void* graph, void** from, void** to, std::size_t* count) {
  std::shared_ptr<Graph> found = TheGraphs().Find(graph);
  if (!found || !count || (from == nullptr) != (to == nullptr)) return Code::kInvalidValue;
  Nodes begins, ends;
  for (const auto& node : found->nodes()) {
    for (const GraphNode* before : node->after) {
      begins.push_back(before);
      ends.push_back(node.get());
    }
  }
  std::size_t room = *count;
  Give(begins, from, &room);
  return Give(ends, to, count);
}

Code TypeOfNode(const void* node, int& type) {
  const GraphNode* found = Graph::FindNode(node);
  if (!found) return Code::kInvalidValue;
  switch (found->operation.kind) {
    case OperationKind::kKernel: type = 0; break;
    case OperationKind::kCopy: type = 1; break;
    case OperationKind::kFill: type = 2; break;
    case OperationKind::kHostFunction: type = 3; break;
    case OperationKind::kGraph: type = 4; break;
    case OperationKind::kEmpty: type = 5; break;
    case OperationKind::kEventRecord: type = 7; break;
  }
  return Code::kSuccess;
}

Code AddEdges(const void* graph, const void* const* from, const void* const* to, std::size_t count) {
  std::shared_ptr<Graph> found = TheGraphs().Find(graph);
  auto begins = NodesOf(from, count), ends = NodesOf(to, count);
  if (!found || !begins || !ends) return Code::kInvalidValue;
  for (std::size_t i = 0; i < count; ++i)
    if (Code code = found->AddDependency((*begins)[i], (*ends)[i]); code != Code::kSuccess) return code;
  return Code::kSuccess;
}

Code AddNode(const void* graph, const void* const* after, std::size_t count, const std::function<Code(Stream&)>& submit,
             void** out) {
  std::shared_ptr<Graph> found = TheGraphs().Find(graph);
  auto nodes = NodesOf(after, count);
  if (!found || !nodes || !out) return Code::kInvalidValue;
  // A stream of our own that captures to the graph: nodes that are added are what capture would have made.
  auto stream = std::make_shared<Stream>(TheDevice(), CurrentGpu(), -1, Stream::kNonBlocking, 0);
  stream->EnterCapture(std::make_shared<Capture>(found, stream.get(), CaptureMode::kRelaxed), *nodes);
  Code code = submit(*stream);
  Nodes made = stream->CapturePlace().second;
  stream->LeaveCapture();
  if (code == Code::kSuccess) *out = made.empty() ? nullptr : const_cast<GraphNode*>(made.back());
  return code;
}

Code AddChild(const void* graph, const void* const* after, std::size_t count, const void* child, void** out) {
  std::shared_ptr<Graph> found = TheGraphs().Find(child);
  if (!found) return Code::kInvalidValue;
  return AddNode(
      graph, after, count,
      [&](Stream& stream) {
        // The child's operations, and one that stands for its end.
        stream.AppendToCapture(*found);
        stream.Submit({.name = "graph", .kind = OperationKind::kGraph});
        return Code::kSuccess;
      },
      out);
}

Code PrintGraph(const void* graph, const char* path) {
  std::shared_ptr<Graph> found = TheGraphs().Find(graph);
  std::FILE* file = found && path ? std::fopen(path, "w") : nullptr;
  if (!file) return Code::kInvalidValue;
  std::fputs("digraph dot {\n", file);
  for (const auto& node : found->nodes()) {
    std::fprintf(file, "n%zu [label=\"%d\"];\n", node->index, static_cast<int>(node->operation.kind));
    for (const GraphNode* before : node->after) std::fprintf(file, "n%zu -> n%zu;\n", before->index, node->index);
  }
  std::fputs("}\n", file);
  return std::fclose(file) == 0 ? Code::kSuccess : Code::kOperatingSystem;
}

Code DescribeCapture(Stream& stream, int* status, unsigned long long* id, void** graph, const void* const** nodes,
                     std::size_t* count) {
  if (!status) return Code::kInvalidValue;
  thread_local std::vector<const void*> handed_out;
  CaptureInfo info = CaptureOf(stream);
  *status = static_cast<int>(info.status);
  if (id) *id = info.id;
  if (graph) *graph = info.graph;
  if (nodes || count) handed_out.assign(info.after.begin(), info.after.end());
  if (nodes) *nodes = handed_out.empty() ? nullptr : handed_out.data();
  if (count) *count = handed_out.size();
  return Code::kSuccess;
}

Code BeginCaptureToGraph(Stream& stream, const void* graph, const void* const* after, std::size_t count, int mode) {
  std::shared_ptr<Graph> found = TheGraphs().Find(graph);
  auto nodes = NodesOf(after, count);
  if (!found || !nodes || mode < 0 || mode > 2) return Code::kInvalidValue;
  return BeginCapture(stream, static_cast<CaptureMode>(mode), found, *nodes);
}

Code UpdateCaptureOf(Stream& stream, const void* const* after, std::size_t count, unsigned flags) {
  auto nodes = NodesOf(after, count);
  if (!nodes || flags > 1) return Code::kInvalidValue;
  return UpdateCapture(stream, *nodes, flags == 1);
}

Code EndCaptureOf(Stream& stream, void** graph) {
  if (!graph) return Code::kInvalidValue;
  std::shared_ptr<Graph> made;
  Code code = EndCapture(stream, made);
  *graph = made.get();
  return code;
}

Code RecordInGraph(Stream& stream, const std::shared_ptr<Event>& event) {
  auto [capture, after] = stream.CapturePlace();
  if (!capture) {
    event->Record(stream);
    return Code::kSuccess;
  }
  stream.Submit({.name = "cudaEventRecord", .kind = OperationKind::kEventRecord});
  for (const GraphNode* node : stream.CapturePlace().second) const_cast<GraphNode*>(node)->event = event;
  return Code::kSuccess;
}

}  // namespace ebbtide::phantom
