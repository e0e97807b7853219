// The list of patterns, by the operator that each ends in, and the view of the file that they look through.
#include "model/onnx/patterns/pattern.h"

#include <cmath>

namespace ebbtide::model::onnx {

namespace {

struct Row {
  std::string_view last_op;
  Match match;
};

// The first that matches is taken.
constexpr Row kPatterns[] = {
    {"Add", MatchLinear},           // MatMul, Add
    {"Add", MatchLayerNorm},        // ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div, Mul, Add
    {"Add", MatchGroupNorm},        // Reshape, InstanceNormalization, Reshape, Mul, Add
    {"Mul", MatchGelu},             // Div, Erf, Add, Mul, Mul
    {"Mul", MatchGatedActivation},  // Sigmoid, Mul
    {"Div", MatchGatedActivation},  // Add, Clip, Mul, Div
    {"MatMul", MatchAttention},     // Mul, Mul, MatMul, Add, Softmax, Dropout, MatMul
    {"LSTM", MatchLstm},            // the gates' weights, cut and joined anew
};

}  // namespace

const Node* PatternView::Maker(ValueId id, std::string_view op) const {
  if (id == kNoValue || analysis_.maker[id] < 0) return nullptr;
  const Node& node = file_.nodes[analysis_.maker[id]];
  return node.op == op ? &node : nullptr;
}

const Node* PatternView::OnlyMaker(ValueId id, std::string_view op) const {
  const Node* node = Maker(id, op);
  return node && analysis_.uses[id] == 1 ? node : nullptr;
}

const Constant* PatternView::FindConstant(ValueId id) const {
  return id != kNoValue && file_.initializers[id] ? &*file_.initializers[id] : nullptr;
}

std::optional<double> PatternView::Number(ValueId id) const {
  for (int steps = 0; steps < 4; ++steps) {
    if (const Constant* constant = FindConstant(id)) {
      if (!constant->contents || !constant->contents->is_uniform()) return std::nullopt;
      return constant->contents->number(0);
    }
    const Node* cast = nullptr;
    for (std::string_view op : {"Cast", "CastLike", "Identity"}) {
      if (const Node* maker = Maker(id, op)) cast = maker;
    }
    if (!cast) return std::nullopt;
    id = cast->input(0);
  }
  return std::nullopt;
}

bool PatternView::IsNumber(ValueId id, double number) const {
  const auto value = Number(id);
  return value && std::fabs(*value - number) <= 1e-4 * std::fabs(number);
}

ValueId PatternView::BesideNumber(const Node* node, double number) const {
  if (!node || node->inputs.size() != 2) return kNoValue;
  if (IsNumber(node->inputs[1], number)) return node->inputs[0];
  return IsNumber(node->inputs[0], number) ? node->inputs[1] : kNoValue;
}

ValueId PatternView::Beside(const Node* node, ValueId id) {
  if (!node || node->inputs.size() != 2) return kNoValue;
  if (node->inputs[0] == id) return node->inputs[1];
  return node->inputs[1] == id ? node->inputs[0] : kNoValue;
}

Node Replacement(const Node& last, std::string_view op, std::vector<ValueId> inputs) {
  return {.number = last.number, .name = last.name, .op = std::string(op), .inputs = std::move(inputs)};
}

void ReplacePatterns(File& file) {
  const Analysis analysis = Analyze(file);
  const PatternView view(file, analysis);
  for (Node& node : file.nodes) {
    if (node.outputs.empty()) continue;
    for (const Row& row : kPatterns) {
      if (node.op != row.last_op) continue;
      std::optional<Node> found = row.match(view, node);
      if (!found) continue;
      found->outputs = node.outputs;
      node = std::move(*found);
      break;
    }
  }
  DropUnused(file);
}

}  // namespace ebbtide::model::onnx
