// Looks names of the gradient table up in a recorded op.
#include "model/saved.h"

#include <algorithm>

#include "model/gradient_rules.h"

namespace ebbtide::model {

std::vector<TensorId> TensorsNamed(const Builder& b, OpId op, const std::string& name) {
  const Op& node = b.graph().op(op);
  if (name.starts_with("result")) {
    const std::size_t index = name.size() > 6 ? std::stoul(name.substr(6)) : 0;
    return index < node.outputs.size() ? std::vector<TensorId>{node.outputs[index]} : std::vector<TensorId>{};
  }
  if (const TensorId saved = b.SavedFor(op, name); saved.valid()) return {saved};
  const Value* value = FindArgument(node, name);
  if (!value) return {};
  if (const TensorId* id = std::get_if<TensorId>(value)) return {*id};
  if (const TensorList* list = std::get_if<TensorList>(value)) return list->ids;
  return {};
}

Saves SavesOf(const Builder& b, OpId op) {
  const Op& node = b.graph().op(op);
  const auto needs_grad = [&](TensorId id) { return b.NeedsGrad(id); };
  if (std::ranges::none_of(node.outputs, needs_grad)) return Saves::kNothing;
  Saves saves = Saves::kNothing;
  for (const GradientStatement& statement : FindGradientRule(node.kind)->backward) {
    const auto is_asked_for = [&](const std::string& name) {
      return std::ranges::any_of(TensorsNamed(b, op, name), needs_grad);
    };
    if (std::ranges::none_of(statement.targets, is_asked_for)) continue;
    for (const std::string& name : statement.reads) {
      if (TensorsNamed(b, op, name).empty()) continue;
      if (name.starts_with("result")) return Saves::kResults;
      saves = Saves::kOperands;
    }
  }
  return saves;
}

}  // namespace ebbtide::model
