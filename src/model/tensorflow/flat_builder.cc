// Adds a node once its outputs are inferred; one whose outputs are all known runs no kernel and is left out.
#include "model/tensorflow/flat_builder.h"

#include <algorithm>

namespace ebbtide::model::tensorflow {
namespace {

const Attributes kNoAttributes;

}  // namespace

std::vector<ValueId> FlatBuilder::MakeAll(std::string op, std::vector<ValueId> inputs, Attributes attributes) {
  if (std::find(inputs.begin(), inputs.end(), kNone) != inputs.end()) return {};
  if (flat_.nodes.size() >= kMostFlatNodes) Fail(fmt::format("expected at most {} nodes", kMostFlatNodes));
  if (error_) return {};
  const std::size_t values = flat_.values.size();
  FlatNode node{.name = name_, .op = std::move(op), .attributes = &kNoAttributes, .inputs = std::move(inputs)};
  node.gradient_of = gradient_of_;
  if (!attributes.empty()) {
    flat_.attributes.push_back(std::move(attributes));
    node.attributes = &flat_.attributes.back();
  }
  if (const Status status = InferOutputs(flat_, node, false); !status) {
    Fail(Describe(node) + ": " + status.error().message);
    return {};
  }
  const std::vector<ValueId> outputs = node.outputs;
  bool runs = outputs.empty();
  for (const ValueId output : outputs) {
    const Value& value = flat_.value(output);
    runs = runs || (static_cast<std::size_t>(output) >= values && value.type.kind == Kind::kNumbers && !value.known);
  }
  if (!runs) return outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (static_cast<std::size_t>(outputs[i]) < values) continue;
    flat_.value(outputs[i]).node = static_cast<int>(flat_.nodes.size());
    flat_.value(outputs[i]).output = static_cast<int>(i);
  }
  flat_.nodes.push_back(std::move(node));
  return outputs;
}

ValueId FlatBuilder::Make(std::string op, std::vector<ValueId> inputs, Attributes attributes) {
  const std::vector<ValueId> outputs = MakeAll(std::move(op), std::move(inputs), std::move(attributes));
  return outputs.empty() ? kNone : outputs[0];
}

ValueId FlatBuilder::Add(Value value) {
  flat_.values.push_back(std::move(value));
  return static_cast<ValueId>(flat_.values.size()) - 1;
}

ValueId FlatBuilder::Integers(Dims values) {
  const Dims shape = {static_cast<std::int64_t>(values.size())};
  return Add({.type = {Kind::kNumbers, DType::kInt32},
              .shape = shape,
              .known = Simplified(IntegerArray(shape, std::move(values), DType::kInt32))});
}

ValueId FlatBuilder::Integer(std::int64_t value) {
  return Add({.type = {Kind::kNumbers, DType::kInt32}, .known = IntegerArray({}, {value}, DType::kInt32)});
}

ValueId FlatBuilder::Real(double value) { return Add({.known = RealArray({}, {value})}); }

ValueId FlatBuilder::Input(std::string name, DType dtype, Dims shape) {
  const int node = static_cast<int>(flat_.nodes.size());
  const ValueId id = Add({.type = {Kind::kNumbers, dtype}, .shape = std::move(shape), .node = node});
  flat_.nodes.push_back({.name = std::move(name), .op = "Placeholder", .attributes = &kNoAttributes, .outputs = {id}});
  return id;
}

ValueId FlatBuilder::Read(Variable variable) {
  const ValueId id = Add({.type = {Kind::kNumbers, variable.dtype}, .shape = variable.shape});
  MakeVariable(id, std::move(variable));
  return id;
}

void FlatBuilder::MakeVariable(ValueId value, Variable variable) {
  Value& target = flat_.value(value);
  target.known.reset();
  target.variable = static_cast<int>(flat_.variables.size());
  if (target.node == kNone) {
    target.node = static_cast<int>(flat_.nodes.size());
    flat_.nodes.push_back(
        {.name = variable.name, .op = "ReadVariableOp", .attributes = &kNoAttributes, .outputs = {value}});
  } else {
    flat_.node(target.node).op = "ReadVariableOp";
  }
  flat_.variables.push_back(std::move(variable));
}

ValueId FlatBuilder::Handle(int variable) {
  return Add({.type = {Kind::kResource, DType::kUInt8}, .variable = variable});
}

void FlatBuilder::Fail(const std::string& message) {
  if (!error_) error_ = Error{message};
}

}  // namespace ebbtide::model::tensorflow
