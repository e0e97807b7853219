// A layer profile: lines of nodes with their times and sizes, and lines of edges. It becomes the training step that
// Checkmate plans on: forward in the order of the nodes, a loss, and one backward op per node, in reverse.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "graph/check.h"
#include "graph/json.h"
#include "model/timed/kinds.h"
#include "model/timed/timed.h"

namespace ebbtide::model::timed {
namespace {

constexpr std::string_view kBetween = " -- ";
constexpr Nanos kLossTime = 1000;
constexpr Bytes kLossBytes = 4;
constexpr double kMostMilliseconds = 1e12;  // 30 years
constexpr double kMostBytes = 9e18;

struct Node {
  std::int64_t number = 0;  // of "node17"
  std::size_t line = 0;
  std::string module;  // "Conv2d"
  Nanos forward = 0, backward = 0;
  Bytes bytes = 0;
  std::vector<std::size_t> inputs, successors;
};

class LayerParser {
 public:
  explicit LayerParser(std::string_view text) : text_(text) {}

  // In the order in which they run.
  Result<std::vector<Node>> Parse() {
    while (!text_.empty()) {
      ++line_;
      const std::size_t end = std::min(text_.find('\n'), text_.size());
      if (const Status status = ParseLine(Trimmed(text_.substr(0, end))); !status) {
        return Within(fmt::format("line {}", line_), status.error());
      }
      text_.remove_prefix(std::min(end + 1, text_.size()));
    }
    if (nodes_.empty())
      return Fail("expected lines such as \"node1 -- Input -- forward_compute_time=...\", found none");
    if (const Status status = AddEdges(); !status) return tl::unexpected<Error>(status.error());
    return InOrder();
  }

 private:
  struct Edge {
    std::int64_t from = 0, to = 0;
    std::size_t line = 0;
  };

  static std::string_view Trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t\r");
    return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
  }

  Status ParseLine(std::string_view line) {
    if (line.empty()) return {};
    const std::size_t first = line.find(kBetween);
    const std::size_t last = line.rfind(kBetween);
    if (first == std::string_view::npos) {
      return Fail("expected \"node1 -- node2\" or \"node1 -- Layer(...) -- forward_compute_time=...\", found {}",
                  Quoted(line));
    }
    EBB_ASSIGN_OR_RETURN(const std::int64_t number, ParseNumber(line.substr(0, first)));
    if (first == last) {
      EBB_ASSIGN_OR_RETURN(const std::int64_t to, ParseNumber(line.substr(first + kBetween.size())));
      edges_.push_back({number, to, line_});
      return {};
    }
    const auto [entry, is_new] = index_.try_emplace(number, nodes_.size());
    if (!is_new) return Fail("node{} is already described in line {}", number, nodes_[entry->second].line);
    Node& node = nodes_.emplace_back();
    node.number = number;
    node.line = line_;
    std::string_view module = line.substr(first + kBetween.size(), last - first - kBetween.size());
    node.module = Trimmed(module.substr(0, module.find('(')));
    if (node.module.empty()) return Fail("expected a layer such as \"ReLU(inplace)\", found {}", Quoted(module));
    return ParseFigures(line.substr(last + kBetween.size()), node);
  }

  static Result<std::int64_t> ParseNumber(std::string_view text) {
    constexpr std::string_view kPrefix = "node";
    std::int64_t number = 0;
    if (text.starts_with(kPrefix)) {
      const std::string_view digits = text.substr(kPrefix.size());
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
      const bool whole = error == std::errc() && end == digits.data() + digits.size();
      if (whole && number >= 0) return number;
    }
    return Fail("expected a node such as \"node17\", found {}", Quoted(text));
  }

  // "forward_compute_time=2.211, backward_compute_time=2.788, activation_size=205520896.000, parameter_size=0.000".
  static Status ParseFigures(std::string_view text, Node& node) {
    enum { kForward, kBackward, kActivation, kParameter, kFigures };
    static constexpr std::string_view kNames[] = {"forward_compute_time", "backward_compute_time", "activation_size",
                                                  "parameter_size"};
    double figures[kFigures] = {};
    bool seen[kFigures] = {};
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(','), text.size());
      const std::string_view figure = Trimmed(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      const std::size_t equals = figure.find('=');
      const auto* name = std::find(std::begin(kNames), std::end(kNames), figure.substr(0, equals));
      if (equals == std::string_view::npos || name == std::end(kNames)) {
        return Fail("expected one of the four figures of a layer (\"{}=...\"), found {}", kNames[0], Quoted(figure));
      }
      const auto which = static_cast<std::size_t>(name - kNames);
      if (std::exchange(seen[which], true)) return Fail("{} appears twice", *name);
      const bool is_time = which <= kBackward;
      EBB_ASSIGN_OR_RETURN(figures[which],
                           ParseFigure(*name, figure.substr(equals + 1), is_time ? kMostMilliseconds : kMostBytes));
      if (!is_time && figures[which] != std::floor(figures[which])) {
        return Fail("{}: expected a whole number of bytes, found {}", *name, Quoted(figure.substr(equals + 1)));
      }
    }
    const auto* missing = std::find(std::begin(seen), std::end(seen), false);
    if (missing != std::end(seen)) return Fail("expected {}=..., found none", kNames[missing - seen]);
    // Times of an input are those of loading data.
    const bool is_input = node.module == "Input";
    node.forward = is_input ? 0 : std::llround(figures[kForward] * 1e6);
    node.backward = is_input ? 0 : std::llround(figures[kBackward] * 1e6);
    node.bytes = static_cast<Bytes>(figures[kActivation]);
    return {};
  }

  static Result<double> ParseFigure(std::string_view name, std::string_view text, double most) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= most)) {
      return Fail("{}: expected a number from 0 to {:g}, found {}", name, most, Quoted(text));
    }
    return value;
  }

  Status AddEdges() {
    for (const Edge& edge : edges_) {
      const auto from = index_.find(edge.from);
      const auto to = index_.find(edge.to);
      if (from == index_.end() || to == index_.end()) {
        return Fail("line {}: no line describes node{}", edge.line, from == index_.end() ? edge.from : edge.to);
      }
      nodes_[from->second].successors.push_back(to->second);
      nodes_[to->second].inputs.push_back(from->second);
    }
    for (Node& node : nodes_) {
      std::sort(node.successors.begin(), node.successors.end());
      std::sort(node.inputs.begin(), node.inputs.end(),
                [&](std::size_t a, std::size_t b) { return nodes_[a].number < nodes_[b].number; });
      const auto twice = std::adjacent_find(node.inputs.begin(), node.inputs.end());
      if (twice == node.inputs.end()) continue;
      return Fail("line {}: the edge node{} -- node{} is there twice", LineOfEdge(nodes_[*twice].number, node.number),
                  nodes_[*twice].number, node.number);
    }
    return {};
  }

  // The last one.
  std::size_t LineOfEdge(std::int64_t from, std::int64_t to) const {
    const auto edge = std::find_if(edges_.rbegin(), edges_.rend(),
                                   [&](const Edge& candidate) { return candidate.from == from && candidate.to == to; });
    return edge->line;
  }

  // Nodes after their inputs, otherwise by number; indices then mean places in this order.
  Result<std::vector<Node>> InOrder() {
    using Next = std::pair<std::int64_t, std::size_t>;
    std::priority_queue<Next, std::vector<Next>, std::greater<>> ready;
    std::vector<std::size_t> waiting(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      waiting[i] = nodes_[i].inputs.size();
      if (waiting[i] == 0) ready.emplace(nodes_[i].number, i);
    }
    std::vector<std::size_t> order;
    while (!ready.empty()) {
      const std::size_t at = ready.top().second;
      ready.pop();
      order.push_back(at);
      for (const std::size_t successor : nodes_[at].successors) {
        if (--waiting[successor] == 0) ready.emplace(nodes_[successor].number, successor);
      }
    }
    if (order.size() < nodes_.size()) return NameCycle(waiting);
    std::vector<std::size_t> place(nodes_.size());
    for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    std::vector<Node> ordered;
    for (const std::size_t at : order) {
      Node& node = ordered.emplace_back(std::move(nodes_[at]));
      for (std::size_t& input : node.inputs) input = place[input];
      for (std::size_t& successor : node.successors) successor = place[successor];
    }
    return ordered;
  }

  // Every node that still waits has an input that does: going back leads into a cycle.
  tl::unexpected<Error> NameCycle(const std::vector<std::size_t>& waiting) const {
    std::vector<bool> passed(nodes_.size());
    auto at = static_cast<std::size_t>(
        std::find_if(waiting.begin(), waiting.end(), [](std::size_t inputs) { return inputs > 0; }) - waiting.begin());
    while (!passed[at]) {
      passed[at] = true;
      at = *std::find_if(nodes_[at].inputs.begin(), nodes_[at].inputs.end(),
                         [&](std::size_t input) { return waiting[input] > 0; });
    }
    return Fail("line {}: node{} needs its own output, through a cycle of edges", nodes_[at].line, nodes_[at].number);
  }

  std::string_view text_;
  std::size_t line_ = 0;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::unordered_map<std::int64_t, std::size_t> index_;  // by number of node
};

class LayerGraph {
 public:
  explicit LayerGraph(const std::vector<Node>& nodes)
      : nodes_(nodes), outputs_(nodes.size()), gradients_(nodes.size()) {}

  Result<TrainingGraph> Build() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) AddForward(i);
    AddLoss();
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      if (nodes_[i].module != "Input") EBB_RETURN_IF_ERROR(AddBackward(i));
    }
    graph_.meta["source"] = "layer profile";
    graph_.meta["times"] = "measured";
    return std::move(graph_);
  }

 private:
  void AddForward(std::size_t index) {
    const Node& node = nodes_[index];
    Op op;
    op.kind = KindsOfLayer(node.module).forward;
    op.layer = LayerName(node);
    op.time = node.forward;
    op.random = IsRandomKind(op.kind);
    for (const std::size_t input : node.inputs) op.inputs.push_back(outputs_[input]);
    outputs_[index] = AddOutput(op, node.bytes, StorageKind::kActivation);
    graph_.ops.push_back(std::move(op));
  }

  void AddLoss() {
    Op op;
    op.kind = "loss";
    op.time = kLossTime;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].successors.empty()) op.inputs.push_back(outputs_[i]);
    }
    loss_ = AddOutput(op, kLossBytes, StorageKind::kActivation);
    graph_.outputs = {loss_};
    graph_.ops.push_back(std::move(op));
  }

  // Reads the node's output, its inputs and the gradients that its successors made; makes that of all its inputs.
  Status AddBackward(std::size_t index) {
    const Node& node = nodes_[index];
    Op op;
    op.kind = KindsOfLayer(node.module).backward;
    op.phase = Phase::kBackward;
    op.layer = LayerName(node);
    op.time = node.backward;
    op.inputs.push_back(outputs_[index]);
    Bytes bytes = 0;
    for (const std::size_t input : node.inputs) {
      op.inputs.push_back(outputs_[input]);
      if (__builtin_add_overflow(bytes, nodes_[input].bytes, &bytes)) {
        return Fail("line {}: the bytes of the inputs of node{} exceed 64 bits", node.line, node.number);
      }
    }
    for (const std::size_t successor : node.successors) {
      if (gradients_[successor].valid()) op.inputs.push_back(gradients_[successor]);
    }
    if (node.successors.empty()) op.inputs.push_back(loss_);
    gradients_[index] = AddOutput(op, bytes, StorageKind::kTemporary);
    graph_.ops.push_back(std::move(op));
    return {};
  }

  TensorId AddOutput(Op& op, Bytes bytes, StorageKind kind) {
    const DType dtype = bytes % 4 == 0 ? DType::kFloat32 : DType::kUInt8;
    graph_.storages.push_back({.bytes = bytes, .kind = kind, .name = {}, .released_after = {}});
    graph_.tensors.push_back({.storage = StorageId(graph_.storages.size() - 1),
                              .dtype = dtype,
                              .shape = {bytes / ItemSize(dtype)},
                              .stride = {1},
                              .offset = 0,
                              .name = {}});
    op.outputs.emplace_back(graph_.tensors.size() - 1);
    return op.outputs.back();
  }

  static std::string LayerName(const Node& node) { return fmt::format("node{}", node.number); }

  const std::vector<Node>& nodes_;
  TrainingGraph graph_;
  std::vector<TensorId> outputs_;
  std::vector<TensorId> gradients_;
  TensorId loss_;
};

}  // namespace

Result<TrainingGraph> ParseLayers(std::string_view text, const std::string& name) {
  const auto nodes = LayerParser(text).Parse();
  if (!nodes) return Within(name, nodes.error());
  auto graph = LayerGraph(*nodes).Build();
  if (!graph) return Within(name, graph.error());
  if (const Status status = Check(*graph); !status) return Within(name, status.error());
  return graph;
}

Result<TrainingGraph> ReadLayers(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kGraphFileLimit));
  return ParseLayers(text, path);
}

}  // namespace ebbtide::model::timed
