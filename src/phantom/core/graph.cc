// Graphs and their launches.
#include "phantom/core/graph.h"

#include <algorithm>

#include "phantom/core/declare.h"
#include "phantom/core/device.h"

namespace ebbtide::phantom {
namespace {

struct LiveNodes {
  std::mutex mutex;
  std::unordered_map<const void*, GraphNode*> nodes;
};

LiveNodes& TheNodes() {
  static LiveNodes* nodes = new LiveNodes;
  return *nodes;
}

}  // namespace

Handles<Graph>& TheGraphs() {
  static auto* graphs = new Handles<Graph>;
  return *graphs;
}

Handles<ExecutableGraph>& TheExecutableGraphs() {
  static auto* graphs = new Handles<ExecutableGraph>;
  return *graphs;
}

Graph::~Graph() {
  LiveNodes& live = TheNodes();
  std::lock_guard lock(live.mutex);
  for (const auto& node : nodes_) live.nodes.erase(node.get());
}

GraphNode* Graph::FindNode(const void* handle) {
  LiveNodes& live = TheNodes();
  std::lock_guard lock(live.mutex);
  auto found = live.nodes.find(handle);
  return found == live.nodes.end() ? nullptr : found->second;
}

GraphNode* Graph::Add(Operation operation, const std::vector<const GraphNode*>& after) {
  auto made = std::make_unique<GraphNode>();
  made->graph = this;
  made->index = nodes_.size();
  made->operation = std::move(operation);
  made->after = after;
  GraphNode* node = made.get();
  nodes_.push_back(std::move(made));
  LiveNodes& live = TheNodes();
  std::lock_guard lock(live.mutex);
  live.nodes.emplace(node, node);
  return node;
}

Code Graph::AddDependency(const GraphNode* from, const GraphNode* to) {
  if (from->graph != this || to->graph != this || from->index >= to->index) return Code::kInvalidValue;
  std::vector<const GraphNode*>& after = nodes_[to->index]->after;
  if (std::find(after.begin(), after.end(), from) == after.end()) after.push_back(from);
  return Code::kSuccess;
}

std::vector<const GraphNode*> Graph::Append(const Graph& other, const std::vector<const GraphNode*>& after) {
  const std::size_t first = nodes_.size();
  std::vector<bool> is_last(other.nodes_.size(), true);
  for (const auto& node : other.nodes_) {
    std::vector<const GraphNode*> before;
    for (const GraphNode* one : node->after) {
      before.push_back(nodes_[first + one->index].get());
      is_last[one->index] = false;
    }
    Add(node->operation, before.empty() ? after : before)->event = node->event;
  }
  std::vector<const GraphNode*> last;
  for (std::size_t i = 0; i < is_last.size(); ++i)
    if (is_last[i]) last.push_back(nodes_[first + i].get());
  return last.empty() ? after : last;
}

bool Graph::HasShapeOf(const Graph& other) const {
  if (nodes_.size() != other.nodes_.size()) return false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const GraphNode &a = *nodes_[i], &b = *other.nodes_[i];
    if (a.operation.kind != b.operation.kind || a.after.size() != b.after.size()) return false;
    for (std::size_t k = 0; k < a.after.size(); ++k)
      if (a.after[k]->index != b.after[k]->index) return false;
  }
  return true;
}

Nanos Graph::Duration() const {
  std::vector<Nanos> ends(nodes_.size(), 0);
  Nanos last = 0;
  for (const auto& node : nodes_) {
    Nanos begin = 0;
    for (const GraphNode* one : node->after) begin = std::max(begin, ends[one->index]);
    last = std::max(last, ends[node->index] = begin + node->operation.duration);
  }
  return last;
}

std::int64_t Graph::Kernels() const {
  return std::count_if(nodes_.begin(), nodes_.end(),
                       [](const auto& node) { return node->operation.kind == OperationKind::kKernel; });
}

std::shared_ptr<Graph> Graph::Copy() const {
  auto copy = std::make_shared<Graph>();
  copy->Append(*this, {});
  return copy;
}

Code LaunchGraph(Device& device, const std::shared_ptr<const Graph>& graph, Stream& stream) {
  if (stream.AppendToCapture(*graph)) return Code::kSuccess;
  device.statistics.launches.fetch_add(graph->Kernels(), std::memory_order_relaxed);
  device.known.ForgetAll();  // whatever it writes
  Operation all{.name = "cudaGraphLaunch", .duration = graph->Duration(), .kind = OperationKind::kGraph};
  bool has_work = false, at_once = true;
  for (const auto& node : graph->nodes()) {
    has_work = has_work || node->operation.work;
    at_once = at_once && (!node->operation.work || node->operation.at_once);
    const std::vector<Access>& accesses = node->operation.accesses;
    all.accesses.insert(all.accesses.end(), accesses.begin(), accesses.end());
  }
  if (has_work) {
    all.at_once = at_once;
    all.work = [graph] {
      for (const auto& node : graph->nodes())
        if (node->operation.work) node->operation.work();
    };
  }
  stream.Submit(std::move(all));
  for (const auto& node : graph->nodes())
    if (node->event) node->event->Record(stream);
  return Code::kSuccess;
}

}  // namespace ebbtide::phantom
