// Tells weights from other constants by where operators read them, chooses the loss, and drops what is left over.
#include "model/tensorflow/train.h"

#include <algorithm>

#include "model/tensorflow/goal.h"
#include "model/tensorflow/gradient.h"

namespace ebbtide::model::tensorflow {
namespace {

enum class Place { kNone, kWeight, kStatistic };

Place PlaceOf(const FlatNode& node, std::size_t input, const Value& value) {
  const std::string& op = node.op;
  if (op == "Conv2D" || op == "DepthwiseConv2dNative" || op == "BiasAdd")
    return input == 1 ? Place::kWeight : Place::kNone;
  if (op == "MatMul" || op.starts_with("BatchMatMul") || op == "Einsum") return Place::kWeight;
  if (op.starts_with("FusedBatchNorm"))
    return input >= 3 ? Place::kStatistic : input >= 1 ? Place::kWeight : Place::kNone;
  if (op == "GatherV2" || op == "Gather") return input == 0 ? Place::kWeight : Place::kNone;
  // A scale or an offset of channels; single numbers are constants of a formula.
  const bool is_pointwise = op == "Mul" || op == "AddV2" || op == "Add" || op == "Sub";
  return is_pointwise && CountElements(value.shape).value_or(0) > 1 ? Place::kWeight : Place::kNone;
}

bool IsConstant(const Flat& flat, const Value& value) {
  return value.type.kind == Kind::kNumbers && IsFloating(value.type.dtype) && value.variable == kNone &&
         (value.node == kNone || flat.node(value.node).op == "Const");
}

// What it is a view or another type of.
ValueId SourceOf(const Flat& flat, ValueId id) {
  for (int node = flat.value(id).node; node != kNone; node = flat.value(id).node) {
    const std::string& op = flat.node(node).op;
    if (op != "Reshape" && op != "Squeeze" && op != "ExpandDims" && op != "Cast") break;
    id = flat.node(node).inputs[0];
  }
  return id;
}

ValueId LossOf(FlatBuilder& build, ValueId result) {
  Flat& flat = build.flat();
  const Dims shape = flat.value(result).shape;
  build.At("loss");
  if (shape.size() < 2) return build.Make("Mean", {result, build.Integers(shape.empty() ? Dims{} : Dims{0})});
  const int maker = flat.value(result).node;
  // A gradient of a softmax and its loss together needs no probabilities.
  if (maker != kNone && flat.node(maker).op == "Softmax") result = flat.node(maker).inputs[0];
  const std::int64_t classes = shape.back(), rows = CountElements({shape.begin(), shape.end() - 1}).value_or(1);
  const ValueId labels = build.Input("labels", DType::kInt32, {shape.begin(), shape.end() - 1});
  const ValueId logits = shape.size() == 2 ? result : build.Make("Reshape", {result, build.Integers({rows, classes})});
  const ValueId numbers = shape.size() == 2 ? labels : build.Make("Reshape", {labels, build.Integers({rows})});
  const ValueId each = build.Make("SparseSoftmaxCrossEntropyWithLogits", {logits, numbers});
  return build.Make("Mean", {each, build.Integers({0})});
}

// Those that no node reads or changes.
void DropVariables(Flat& flat) {
  std::vector<int> places(flat.variables.size(), kNone);
  const auto use = [&](ValueId id) {
    if (flat.value(id).variable != kNone) places[static_cast<std::size_t>(flat.value(id).variable)] = 0;
  };
  for (const FlatNode& node : flat.nodes) {
    for (const ValueId input : node.inputs) use(input);
    for (const ValueId output : node.outputs) use(output);
  }
  std::vector<Variable> kept;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i] == kNone) continue;
    places[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(flat.variables[i]));
  }
  flat.variables = std::move(kept);
  for (Value& value : flat.values) {
    if (value.variable != kNone) value.variable = places[static_cast<std::size_t>(value.variable)];
  }
}

}  // namespace

void DropUnused(Flat& flat) {
  std::vector<bool> is_needed(flat.nodes.size());
  std::vector<int> open;
  for (const ValueId result : flat.results) open.push_back(flat.value(result).node);
  for (std::size_t i = 0; i < flat.nodes.size(); ++i) {
    if (flat.nodes[i].outputs.empty() || flat.nodes[i].op == "Placeholder") open.push_back(static_cast<int>(i));
  }
  while (!open.empty()) {
    const int number = open.back();
    open.pop_back();
    if (number == kNone || is_needed[static_cast<std::size_t>(number)]) continue;
    is_needed[static_cast<std::size_t>(number)] = true;
    for (const ValueId input : flat.node(number).inputs) open.push_back(flat.value(input).node);
    open.insert(open.end(), flat.node(number).after.begin(), flat.node(number).after.end());
  }
  std::vector<int> places(flat.nodes.size(), kNone);
  int kept = 0;
  for (std::size_t i = 0; i < flat.nodes.size(); ++i) {
    if (is_needed[i]) places[i] = kept++;
  }
  for (Value& value : flat.values)
    value.node = value.node == kNone ? kNone : places[static_cast<std::size_t>(value.node)];
  std::size_t next = 0;
  std::erase_if(flat.nodes, [&](const FlatNode&) { return !is_needed[next++]; });
  DropVariables(flat);
  for (FlatNode& node : flat.nodes) {
    for (int& before : node.after) before = places[static_cast<std::size_t>(before)];
  }
}

bool Trains(const Flat& flat) {
  return std::any_of(flat.nodes.begin(), flat.nodes.end(),
                     [](const FlatNode& node) { return IsTrainingOperator(node.op); });
}

void FindWeights(Flat& flat) {
  FlatBuilder build(flat);
  const std::size_t nodes = flat.nodes.size();
  for (std::size_t i = 0; i < nodes; ++i) {
    for (std::size_t k = 0; k < flat.nodes[i].inputs.size(); ++k) {
      const Place place = PlaceOf(flat.nodes[i], k, flat.value(flat.nodes[i].inputs[k]));
      const ValueId id = SourceOf(flat, flat.nodes[i].inputs[k]);
      const Value& value = flat.value(id);
      if (!IsConstant(flat, value)) continue;
      if (place == Place::kNone) continue;
      const std::string name =
          value.node == kNone ? flat.nodes[i].name + "/weight" + std::to_string(k) : flat.node(value.node).name;
      build.MakeVariable(
          id, {.name = name, .dtype = value.type.dtype, .shape = value.shape, .is_trainable = place == Place::kWeight});
    }
  }
}

Status AddStep(Flat& flat, const ModelOptions& options) {
  for (FlatNode& node : flat.nodes) {
    if (!node.op.starts_with("FusedBatchNorm")) continue;
    Attributes attributes = *node.attributes;
    std::erase_if(attributes, [](const auto& attribute) { return attribute.first == "is_training"; });
    flat.attributes.push_back(std::move(attributes));
    node.attributes = &flat.attributes.back();
  }
  const auto result = std::find_if(flat.results.begin(), flat.results.end(), [&](ValueId id) {
    const Type type = flat.value(id).type;
    return type.kind == Kind::kNumbers && IsFloating(type.dtype);
  });
  if (result == flat.results.end()) return Fail("expected a result of floating type");
  FlatBuilder build(flat);
  const ValueId loss = LossOf(build, *result);
  if (build.error()) return tl::unexpected(*build.error());
  return AddStepBehind(flat, loss, options);
}

Status AddStepBehind(Flat& flat, ValueId loss, const ModelOptions& options) {
  flat.results = {loss};
  EBB_RETURN_IF_ERROR(AddTraining(flat, loss, options.optimizer));
  DropUnused(flat);
  return {};
}

}  // namespace ebbtide::model::tensorflow
