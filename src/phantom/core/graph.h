// CUDA graphs: operations with what each of them waits for, recorded once and launched many times.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "phantom/core/code.h"
#include "phantom/core/handles.h"
#include "phantom/core/stream.h"

namespace ebbtide::phantom {

class Event;
class Graph;

// One operation of a graph. Its address is the handle that the program holds.
struct GraphNode {
  Graph* graph = nullptr;
  std::size_t index = 0;  // in the graph; those it waits for come before it
  Operation operation;
  std::vector<const GraphNode*> after;
  std::shared_ptr<Event> event;  // that it records, where its kind is kEventRecord
};

// Thread-safe as far as the program keeps to CUDA's rule: one thread at a time changes a graph.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  GraphNode* Add(Operation operation, const std::vector<const GraphNode*>& after);
  // Lets `to` wait for `from` too. kInvalidValue: not nodes of this graph, or in the wrong order.
  Code AddDependency(const GraphNode* from, const GraphNode* to);
  // All nodes of `other`, those without anything to wait for behind `after`; the last of them, which nothing waits for.
  std::vector<const GraphNode*> Append(const Graph& other, const std::vector<const GraphNode*>& after);
  const std::vector<std::unique_ptr<GraphNode>>& nodes() const { return nodes_; }
  // Whether the other has as many nodes, of the same kinds, with the same order.
  bool HasShapeOf(const Graph& other) const;

  // The longest way through the graph: branches that nothing orders run side by side.
  Nanos Duration() const;
  std::int64_t Kernels() const;
  // The same operations and order, for what is instantiated.
  std::shared_ptr<Graph> Copy() const;

  // The node of a handle; null where it is none.
  static GraphNode* FindNode(const void* handle);

 private:
  std::vector<std::unique_ptr<GraphNode>> nodes_;
};

// A graph that can be launched: what the graph was when it was instantiated.
struct ExecutableGraph {
  std::shared_ptr<const Graph> graph;
  unsigned long long flags = 0;
};

Handles<Graph>& TheGraphs();
Handles<ExecutableGraph>& TheExecutableGraphs();

// All operations of the graph, in the order of `stream`; into the graph that it is captured to, where it is.
Code LaunchGraph(Device& device, const std::shared_ptr<const Graph>& graph, Stream& stream);

}  // namespace ebbtide::phantom
