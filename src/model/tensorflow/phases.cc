// Tells parameters by the kernels that update them, and phases by what depends on what.
#include "model/tensorflow/phases.h"

#include <algorithm>
#include <map>

namespace ebbtide::model::tensorflow {
namespace {

// Nodes that those depend on, themselves included.
std::vector<bool> Ancestors(const Flat& flat, std::vector<int> open) {
  std::vector<bool> is_needed(flat.nodes.size());
  while (!open.empty()) {
    const int number = open.back();
    open.pop_back();
    if (number == kNone || is_needed[static_cast<std::size_t>(number)]) continue;
    is_needed[static_cast<std::size_t>(number)] = true;
    for (const ValueId input : flat.node(number).inputs) open.push_back(flat.value(input).node);
  }
  return is_needed;
}

// The variable that a node without results changes.
int ChangedVariable(const Flat& flat, const FlatNode& node) {
  return node.outputs.empty() && !node.inputs.empty() ? flat.value(node.inputs[0]).variable : kNone;
}

// "adam/conv1_kernel_momentum" is kept for "conv1/kernel".
bool IsNamedAfter(const std::string& name, std::string parameter) {
  if (name.find(parameter) != std::string::npos) return true;
  std::replace(parameter.begin(), parameter.end(), '/', '_');
  return name.find(parameter) != std::string::npos;
}

}  // namespace

std::vector<StorageKind> KindsOfVariables(const Flat& flat) {
  std::vector<StorageKind> kinds;
  std::map<Dims, std::vector<const Variable*>> parameters;
  for (const Variable& variable : flat.variables) {
    const bool is_parameter = variable.is_trainable && IsFloating(variable.dtype);
    kinds.push_back(is_parameter ? StorageKind::kParameter : StorageKind::kBuffer);
    if (is_parameter) parameters[variable.shape].push_back(&variable);
  }
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] != StorageKind::kBuffer) continue;
    const auto alike = parameters.find(flat.variables[i].shape);
    if (alike == parameters.end()) continue;
    const auto is_for = [&](const Variable* parameter) {
      return IsNamedAfter(flat.variables[i].name, parameter->name);
    };
    if (std::any_of(alike->second.begin(), alike->second.end(), is_for)) kinds[i] = StorageKind::kOptimizerState;
  }
  // What an optimizer's kernel takes beside the parameter.
  for (const FlatNode& node : flat.nodes) {
    if (!node.op.starts_with("ResourceApply") && !node.op.starts_with("ResourceSparseApply")) continue;
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      const int variable = flat.value(node.inputs[i]).variable;
      if (variable != kNone && flat.value(node.inputs[i]).type.kind == Kind::kResource)
        kinds[static_cast<std::size_t>(variable)] = StorageKind::kOptimizerState;
    }
  }
  return kinds;
}

void AssignPhases(const Flat& flat, const std::vector<int>& nodes, TrainingGraph& graph) {
  std::vector<int> results, updates;
  for (const ValueId result : flat.results) results.push_back(flat.value(result).node);
  const std::vector<StorageKind> kinds = KindsOfVariables(flat);
  std::vector<bool> is_update(flat.nodes.size());
  for (std::size_t i = 0; i < flat.nodes.size(); ++i) {
    const int variable = ChangedVariable(flat, flat.nodes[i]);
    if (variable == kNone || kinds[static_cast<std::size_t>(variable)] == StorageKind::kBuffer) continue;
    is_update[i] = true;
    updates.push_back(static_cast<int>(i));
  }
  const std::vector<bool> is_forward = Ancestors(flat, results), is_learnt = Ancestors(flat, updates);
  const auto is_backward = [&](std::size_t op) {
    const auto node = static_cast<std::size_t>(nodes[op]);
    return !is_forward[node] && is_learnt[node] && !is_update[node];
  };
  // Backward begins with what reads the last of forward's results that it reads: much of it that needs no gradient,
  // such as shapes of weights, may run before.
  std::vector<std::size_t> maker(graph.tensors.size(), nodes.size());
  std::size_t last = 0, begin = nodes.size(), end = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (is_backward(i)) end = i + 1;
    for (const TensorId id : graph.ops[i].outputs) {
      if (is_forward[static_cast<std::size_t>(nodes[i])]) maker[id.index()] = i;
    }
    if (!is_backward(i)) continue;
    for (const TensorId id : graph.ops[i].inputs) {
      if (maker[id.index()] >= nodes.size() || maker[id.index()] < last) continue;
      if (maker[id.index()] > last || begin == nodes.size()) begin = i;
      last = maker[id.index()];
    }
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    graph.ops[i].phase = i < begin ? Phase::kForward : i < end ? Phase::kBackward : Phase::kUpdate;
  }
  // What forward makes and backward reads is an activation; what an update reads last is a gradient.
  std::vector<bool> is_made(graph.storages.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Op& op = graph.ops[i];
    for (const TensorId id : op.inputs) {
      Storage& storage = graph.storages[graph.tensor(id).storage.index()];
      if (storage.kind != StorageKind::kTemporary) continue;
      if (is_update[static_cast<std::size_t>(nodes[i])]) {
        storage.kind = StorageKind::kGradient;
      } else if (op.phase == Phase::kBackward && is_made[graph.tensor(id).storage.index()]) {
        storage.kind = StorageKind::kActivation;
      }
    }
    for (const TensorId id : op.outputs) {
      if (op.phase == Phase::kForward) is_made[graph.tensor(id).storage.index()] = true;
    }
  }
}

}  // namespace ebbtide::model::tensorflow
