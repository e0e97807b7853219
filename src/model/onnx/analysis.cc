// Marks values in the order of the nodes, and tells parameters by the table of places where operators take weights.
#include "model/onnx/analysis.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <unordered_set>

#include "model/onnx/fold.h"

namespace ebbtide::model::onnx {

namespace {

// Inputs of which an operator takes the shape or the type alone.
bool ReadsNoData(const Node& node, std::size_t input) {
  return node.op == "Shape" || node.op == "Size" || (node.op == "CastLike" && input == 1);
}

}  // namespace

Analysis Analyze(const File& file) {
  const std::size_t count = file.values.size();
  Analysis analysis{std::vector<int>(count, -1), std::vector<int>(count), std::vector<bool>(count),
                    std::vector<bool>(count)};
  for (std::size_t id = 0; id < count; ++id) {
    const auto& constant = file.initializers[id];
    if (!constant) continue;
    // Equal elements in a node are ones or zeros that an exporter put where an operator must have a weight.
    const bool filler = constant->from_node && constant->contents && constant->contents->is_uniform();
    analysis.weight[id] = IsFloating(constant->dtype) && CountElements(constant->shape) != 1 && !filler;
    analysis.host[id] = constant->contents && !analysis.weight[id];
  }
  for (std::size_t i = 0; i < file.nodes.size(); ++i) {
    const Node& node = file.nodes[i];
    bool host = IsFoldable(node) || node.op == "Shape" || node.op == "Size";
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId id = node.inputs[k];
      if (id == kNoValue || ReadsNoData(node, k)) continue;
      ++analysis.uses[id];
      host = host && analysis.host[id];
    }
    for (ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      analysis.maker[id] = static_cast<int>(i);
      analysis.host[id] = host;
    }
  }
  for (ValueId id : file.outputs) ++analysis.uses[id];
  return analysis;
}

namespace {

// Where operators take weights: positions of inputs, and the fewest axes a weight has there.
struct WeightRow {
  std::vector<std::size_t> positions;
  std::size_t fewest_axes;
};
const std::unordered_map<std::string_view, WeightRow> kWeightPositions = {
    {"Conv", {{1, 2}, 1}},
    {"ConvTranspose", {{1, 2}, 1}},
    {"Gemm", {{0, 1, 2}, 1}},
    {"MatMul", {{0, 1}, 2}},
    {"Einsum", {{0, 1}, 2}},
    {"BatchNormalization", {{1, 2}, 1}},
    {"LayerNormalization", {{1, 2}, 1}},
    {"InstanceNormalization", {{1, 2}, 1}},
    {"GroupNormalization", {{1, 2}, 1}},
    {"RMSNormalization", {{1}, 1}},
    {"PRelu", {{1}, 1}},
    {"Gather", {{0}, 2}},
    {"GatherND", {{0}, 2}},
    {"LSTM", {{1, 2, 3}, 1}},
    {"ebbtide.Lstm", {{1, 2, 3, 4}, 1}},
    {"ebbtide.Linear", {{1, 2}, 1}},
};

// What passes a weight on to where it is used.
const std::unordered_set<std::string_view> kPassOn = {"Transpose", "Reshape", "Unsqueeze", "Squeeze",
                                                      "Expand",    "Cast",    "CastLike",  "Identity",
                                                      "Slice",     "Flatten", "Tile",      "Concat"};
// Where only the name tells a parameter from a constant.
const std::unordered_set<std::string_view> kByName = {"Mul", "Add", "Concat"};

// Exporters name the constants they make themselves "onnx::Add_12", "/layer/Constant_output_0", "val_12" or "12".
bool IsNamedByFramework(std::string_view name) {
  if (name.starts_with("onnx::") || name.starts_with("/") || name.starts_with("val_") || name.starts_with("_"))
    return false;
  return !std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c); });
}

class ParameterFinder {
 public:
  ParameterFinder(const File& file, const Analysis& analysis)
      : file_(file), analysis_(analysis), origins_(file.values.size()), found_(file.values.size()) {
    for (std::size_t id = 0; id < origins_.size(); ++id) {
      if (analysis.weight[id] || IsSingle(id)) origins_[id] = {static_cast<ValueId>(id)};
    }
  }

  std::vector<bool> Find() {
    for (const Node& node : file_.nodes) {
      MarkAtWeightPositions(node);
      if (kByName.contains(node.op)) MarkByName(node);
      if (kPassOn.contains(node.op)) PassOn(node);
    }
    return found_;
  }

 private:
  // A bias of one element counts where operators take weights.
  bool IsSingle(std::size_t id) const {
    const auto& constant = file_.initializers[id];
    return constant && !constant->from_node && IsFloating(constant->dtype) && !constant->shape.empty();
  }

  void MarkAtWeightPositions(const Node& node) {
    auto row = kWeightPositions.find(node.op);
    if (row == kWeightPositions.end()) return;
    for (std::size_t position : row->second.positions) {
      const ValueId id = node.input(position);
      if (id == kNoValue) continue;
      for (ValueId origin : origins_[id]) {
        if (file_.initializers[origin]->shape.size() >= row->second.fewest_axes) found_[origin] = true;
      }
    }
  }

  // Layer scales, learned positions, class tokens.
  void MarkByName(const Node& node) {
    const bool meets_data = std::ranges::any_of(
        node.inputs, [&](ValueId id) { return id != kNoValue && !analysis_.host[id] && origins_[id].empty(); });
    if (!meets_data) return;
    for (ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      for (ValueId origin : origins_[id]) {
        if (analysis_.weight[origin] && IsNamedByFramework(file_.values[origin])) found_[origin] = true;
      }
    }
  }

  void PassOn(const Node& node) {
    constexpr std::size_t kMostOrigins = 8;  // gates of a recurrent layer; keeps this linear
    std::vector<ValueId> all;
    const std::size_t count = node.op == "Concat" ? node.inputs.size() : std::min<std::size_t>(node.inputs.size(), 1);
    for (std::size_t i = 0; i < count; ++i) {
      const ValueId id = node.inputs[i];
      if (id == kNoValue || origins_[id].empty()) return;
      for (ValueId origin : origins_[id]) {
        if (std::ranges::find(all, origin) == all.end()) all.push_back(origin);
      }
      if (all.size() > kMostOrigins) return;
    }
    for (ValueId id : node.outputs) {
      if (id != kNoValue) origins_[id] = all;
    }
  }

  const File& file_;
  const Analysis& analysis_;
  std::vector<std::vector<ValueId>> origins_;  // by value: the initializers it is a view or a rearrangement of
  std::vector<bool> found_;
};

}  // namespace

std::vector<bool> FindParameters(const File& file, const Analysis& analysis) {
  return ParameterFinder(file, analysis).Find();
}

}  // namespace ebbtide::model::onnx
