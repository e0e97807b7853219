// What rules ask about a node's inputs and attributes, and the call of an operator's rule.
#include "model/tensorflow/inference.h"

#include "model/tensorflow/operators.h"

namespace ebbtide::model::tensorflow {

std::string Describe(const FlatNode& node) { return Describe(Node{.name = node.name, .op = node.op}); }

Status Inference::Expect(std::size_t least, std::size_t most) const {
  if (inputs() >= least && inputs() <= most) return {};
  if (least == most) return Fail("expected {} inputs, found {}", least, inputs());
  return Fail("expected at least {} inputs, found {}", least, inputs());
}

Result<Dims> Inference::Shape(std::size_t input, std::size_t axes) const {
  if (Shape(input).size() != axes)
    return Fail("input {}: expected {} axes, found {}", input, axes, Shape(input).size());
  return Shape(input);
}

Result<Dims> Inference::Integers(std::size_t input) const {
  const Array* known = Known(input);
  if (known == nullptr || known->is_real())
    return Fail("input {}: expected whole numbers that follow from the file", input);
  const auto count = CountElements(known->shape);
  if (!count || *count > kMostKnownElements) return Fail("input {}: expected fewer numbers", input);
  Dims values;
  for (std::int64_t i = 0; i < *count; ++i) values.push_back(known->integer(static_cast<std::size_t>(i)));
  return values;
}

Result<Dims> Inference::ShapeFrom(std::size_t input) const {
  EBB_ASSIGN_OR_RETURN(Dims shape, Integers(input));
  if (!CountElements(shape)) return Fail("input {}: expected a shape of at most 2^48 elements", input);
  return shape;
}

Result<std::vector<ValueId>> Inference::List(std::size_t input) const {
  if (In(input).list == kNone) return Fail("input {}: expected a list of tensors", input);
  return flat_.lists[static_cast<std::size_t>(In(input).list)];
}

std::int64_t Inference::Integer(std::string_view name, std::int64_t otherwise) const {
  const auto* value = AttributeAs<std::int64_t>(*node_.attributes, name);
  return value ? *value : otherwise;
}

bool Inference::Flag(std::string_view name, bool otherwise) const {
  const auto* value = AttributeAs<bool>(*node_.attributes, name);
  return value ? *value : otherwise;
}

std::string Inference::Text(std::string_view name, std::string_view otherwise) const {
  const auto* value = AttributeAs<std::string>(*node_.attributes, name);
  return value ? *value : std::string(otherwise);
}

Dims Inference::Sizes(std::string_view name) const {
  const auto* value = AttributeAs<std::vector<std::int64_t>>(*node_.attributes, name);
  return value ? *value : Dims{};
}

Type Inference::TypeFrom(std::string_view name, Type otherwise) const {
  const auto* value = AttributeAs<TypeAttribute>(*node_.attributes, name);
  return value ? TypeFromNumber(value->number).value_or(otherwise) : otherwise;
}

void Inference::Yield(Type type, Dims shape, std::optional<Array> known) {
  node_.outputs.push_back(static_cast<ValueId>(flat_.values.size()));
  flat_.values.push_back({.type = type, .shape = std::move(shape), .known = std::move(known)});
}

void Inference::YieldList(std::vector<ValueId> items) {
  Yield({Kind::kVariant, DType::kUInt8}, {});
  flat_.values.back().list = static_cast<int>(flat_.lists.size());
  flat_.lists.push_back(std::move(items));
}

void Inference::YieldIntegers(const Dims& values, Type type) {
  const Dims shape = {static_cast<std::int64_t>(values.size())};
  Yield(type, shape, Simplified(IntegerArray(shape, values, type.dtype)));
}

namespace {

Status InferAssumed(Inference& at) {
  if (at.inputs() == 0) return Fail("has no input whose shape it could keep");
  at.Yield(at.TypeOf(0), at.Shape(0));
  return {};
}

}  // namespace

Status InferOutputs(Flat& flat, FlatNode& node, bool assume_elementwise) {
  const Operator* op = FindOperator(node.op);
  if (op == nullptr && !assume_elementwise)
    return Fail("an operator that is not known; --assume-elementwise goes on as if it kept the shape of its input");
  Inference inference(flat, node);
  const std::size_t values = flat.values.size();
  EBB_RETURN_IF_ERROR(op == nullptr ? InferAssumed(inference) : op->shapes(inference));
  for (std::size_t i = values; i < flat.values.size(); ++i) {
    if (!CountElements(flat.values[i].shape))
      return Fail("output {}: expected at most {} axes and 2^48 elements", i - values, kMostAxes);
  }
  return {};
}

}  // namespace ebbtide::model::tensorflow
