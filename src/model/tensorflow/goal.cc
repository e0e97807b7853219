// Tells by the operators that it depends on whether a signature trains.
#include "model/tensorflow/goal.h"

#include <algorithm>

namespace ebbtide::model::tensorflow {
namespace {

// Whether what the ports depend on, in all functions that are called, trains.
bool Trains(const File& file, const Signature& signature) {
  std::vector<bool> is_seen(file.functions.size());
  std::vector<const Body*> open;
  bool trains = false;
  const auto look_at = [&](const Node& node) {
    trains = trains || IsTrainingOperator(node.op);
    const auto call = [&](const std::string& name) {
      const auto found = file.function_numbers.find(name);
      if (found == file.function_numbers.end() || is_seen[static_cast<std::size_t>(found->second)]) return;
      is_seen[static_cast<std::size_t>(found->second)] = true;
      open.push_back(&file.functions[static_cast<std::size_t>(found->second)]);
    };
    call(node.op);
    for (const auto& [name, value] : node.attributes) {
      if (const auto* function = std::get_if<FunctionAttribute>(&value)) call(function->name);
    }
  };
  std::vector<bool> is_reached(file.graph.nodes.size());
  std::vector<int> nodes;
  for (const auto& [name, port] : signature.outputs) nodes.push_back(port.node);
  while (!nodes.empty()) {
    const int number = nodes.back();
    nodes.pop_back();
    if (is_reached[static_cast<std::size_t>(number)]) continue;
    is_reached[static_cast<std::size_t>(number)] = true;
    const Node& node = file.graph.nodes[static_cast<std::size_t>(number)];
    look_at(node);
    for (const Port input : node.inputs) nodes.push_back(input.node);
  }
  while (!open.empty() && !trains) {
    const Body& body = *open.back();
    open.pop_back();
    for (const Node& node : body.nodes) look_at(node);
  }
  return trains;
}

// Nodes whose results nobody reads.
Goal EndsOf(const Body& body) {
  std::vector<bool> is_read(body.nodes.size());
  for (const Node& node : body.nodes) {
    for (const Port input : node.inputs) is_read[static_cast<std::size_t>(input.node)] = true;
    for (const int control : node.controls) is_read[static_cast<std::size_t>(control)] = true;
  }
  Goal goal;
  for (std::size_t i = 0; i < body.nodes.size(); ++i) {
    const std::string& op = body.nodes[i].op;
    if (is_read[i] || op == "Const" || op == "Placeholder" || op == "VarHandleOp") continue;
    const bool yields = op != "NoOp" && op != "Assert" && !op.starts_with("Assign") && !op.starts_with("Resource");
    if (yields) goal.results.push_back({static_cast<int>(i), 0});
    if (!yields) goal.nodes.push_back(static_cast<int>(i));
  }
  return goal;
}

}  // namespace

bool IsTrainingOperator(std::string_view op) {
  return op.find("Backprop") != std::string_view::npos || op.ends_with("Grad") || op.ends_with("GradV2") ||
         op.ends_with("GradV3") || op.starts_with("ResourceApply") || op.starts_with("ResourceSparseApply");
}

Result<Goal> ChooseGoal(const File& file, const ModelOptions& options) {
  if (file.signatures.empty()) {
    Goal goal = EndsOf(file.graph);
    if (goal.results.empty() && goal.nodes.empty()) return Fail("expected a graph that computes something");
    return goal;
  }
  const Signature* chosen = nullptr;
  int best = -1;
  for (const Signature& signature : file.signatures) {
    if (signature.outputs.empty() || signature.inputs.empty()) continue;
    const int rank =
        (Trains(file, signature) != options.inference ? 2 : 0) + (signature.name == "serving_default" ? 1 : 0);
    if (rank <= best) continue;
    best = rank;
    chosen = &signature;
  }
  if (chosen == nullptr) return Fail("expected a signature with inputs and outputs");
  Goal goal;
  for (const auto& [name, port] : chosen->outputs) goal.results.push_back(port);
  return goal;
}

}  // namespace ebbtide::model::tensorflow
