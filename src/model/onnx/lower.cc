// Runs the rule of each node, or folds it where all its inputs are known; what rules see of a node is here too.
#include "model/onnx/lower.h"

#include <algorithm>
#include <map>

#include "base/json_text.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {

namespace {

// Contents of the whole file together: folding stops beyond it, so that its cost is bounded.
constexpr std::int64_t kMostKnownElementsOfAll = std::int64_t{1} << 24;

// "/encoder/layer.0/attention/MatMul" is in encoder.layer.0.attention; a node that is not named so belongs to the
// layer whose weight it reads.
std::string LayerOf(const Lowering& state, const Node& node) {
  std::string layer;
  if (node.name.starts_with("/")) {
    const std::size_t last = node.name.rfind('/');
    if (last > 0) layer = node.name.substr(1, last - 1);
    std::ranges::replace(layer, '/', '.');
    return layer;
  }
  for (ValueId id : node.inputs) {
    if (id == kNoValue || !state.is_parameter[id]) continue;
    const std::string& name = state.file.values[id];
    const std::size_t last = name.rfind('.');
    return last == std::string::npos ? "" : name.substr(0, last);
  }
  return layer;
}

}  // namespace

std::string ShapeText(const Dims& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Lowering::Lowering(const File& file, const ModelOptions& options)
    : file(file),
      options(options),
      analysis(Analyze(file)),
      is_parameter(FindParameters(file, analysis)),
      b(file.name, options),
      values(file.values.size()) {
  for (std::size_t id = 0; id < values.size(); ++id) {
    if (file.initializers[id] && !is_parameter[id]) values[id].contents = file.initializers[id]->contents;
  }
}

// ---- Inputs

Result<Value*> Call::Find(std::size_t i) {
  if (!Has(i)) return Wrong(fmt::format("input {}: expected one", i));
  Value& value = state_.values[node.inputs[i]];
  const bool made = value.tensor.valid() || value.contents || !value.sequence.empty() ||
                    state_.file.initializers[node.inputs[i]].has_value();
  if (!made) return Wrong(fmt::format("reads {}, an output that is not supported", Quoted(NameOf(i))));
  return &value;
}

Result<TensorId> Call::Tensor(std::size_t i) {
  EBB_ASSIGN_OR_RETURN(Value * value, Find(i));
  if (value->tensor.valid()) return value->tensor;
  if (!value->sequence.empty()) return Wrong(fmt::format("input {}: expected a tensor, found a sequence", i));
  const ValueId id = node.inputs[i];
  const auto& constant = state_.file.initializers[id];
  const Dims& shape = constant ? constant->shape : value->contents->shape;
  if (CountElements(shape) == 0) return Wrong(fmt::format("input {}: expected at least one element", i));
  if (!constant) return value->tensor = Make(*value->contents, NameOf(i), false);
  const std::string layer = b.layer();
  b.set_layer("");
  if (state_.is_parameter[id]) {
    value->tensor = b.Parameter(NameOf(i), constant->shape, constant->dtype);
  } else if (value->contents) {
    value->tensor = Make(*value->contents, NameOf(i), true);
  } else {
    value->tensor = b.Buffer(NameOf(i), constant->shape, constant->dtype);
  }
  b.set_layer(layer);
  return value->tensor;
}

TensorId Call::Make(const Array& contents, const std::string& name, bool from_file) {
  if (contents.is_uniform()) {
    return op::Fill(b, contents.shape.empty() ? "scalar_tensor" : "full", contents.shape, contents.dtype);
  }
  if (!from_file && contents.dtype == DType::kInt64) {  // positions
    TensorId numbers = op::Arange(b, *CountElements(contents.shape));
    return op::Reshape(b, numbers, contents.shape);
  }
  const std::string layer = b.layer();
  b.set_layer("");
  TensorId buffer = b.Buffer(name, contents.shape, contents.dtype);
  b.set_layer(layer);
  return buffer;
}

const Array* Call::Contents(std::size_t i) const {
  if (!Has(i)) return nullptr;
  const Value& value = state_.values[node.inputs[i]];
  return value.contents ? &*value.contents : nullptr;
}

std::optional<double> Call::Number(std::size_t i) const {
  const Array* contents = Contents(i);
  if (!contents || !contents->is_uniform()) return std::nullopt;
  return contents->number(0);
}

Result<Dims> Call::Integers(std::size_t i) {
  EBB_RETURN_IF_ERROR(Find(i));
  const Array* contents = Contents(i);
  const auto values = contents ? AxesOf(node, contents) : std::nullopt;
  if (!values)
    return Wrong(fmt::format("input {}: expected a list of integers that follows from constants and shapes", i));
  return *values;
}

Result<const std::vector<TensorId>*> Call::Sequence(std::size_t i) {
  EBB_ASSIGN_OR_RETURN(Value * value, Find(i));
  if (value->sequence.empty()) return Wrong(fmt::format("input {}: expected a sequence", i));
  return &value->sequence;
}

Result<Dims> Call::Shape(std::size_t i) {
  EBB_ASSIGN_OR_RETURN(Value * value, Find(i));
  if (value->tensor.valid()) return b.shape(value->tensor);
  if (value->contents) return value->contents->shape;
  if (const auto& constant = state_.file.initializers[node.inputs[i]]) return constant->shape;
  return Wrong(fmt::format("input {}: expected a tensor, found a sequence", i));
}

Result<DType> Call::Type(std::size_t i) {
  EBB_ASSIGN_OR_RETURN(Value * value, Find(i));
  if (value->tensor.valid()) return b.at(value->tensor).dtype;
  if (value->contents) return value->contents->dtype;
  if (const auto& constant = state_.file.initializers[node.inputs[i]]) return constant->dtype;
  return Wrong(fmt::format("input {}: expected a tensor, found a sequence", i));
}

bool Call::IsParameter(std::size_t i) const { return Has(i) && state_.is_parameter[node.inputs[i]]; }
bool Call::IsInitializer(std::size_t i) const { return Has(i) && state_.file.initializers[node.inputs[i]].has_value(); }
const std::string& Call::NameOf(std::size_t i) const { return state_.file.values[node.inputs[i]]; }

const Node* Call::MakerForThisAlone(std::size_t i) const {
  if (!Has(i) || state_.analysis.uses[node.inputs[i]] != 1) return nullptr;
  const int maker = state_.analysis.maker[node.inputs[i]];
  return maker < 0 ? nullptr : &state_.file.nodes[maker];
}

// ---- Attributes

std::int64_t Call::Int(std::string_view name, std::int64_t fallback) {
  const AttributeValue* value = node.FindAttribute(name);
  if (!value) return fallback;
  if (const auto* number = std::get_if<std::int64_t>(value)) return *number;
  wrong_attribute_ = fmt::format("attribute {}: expected an integer", name);
  return fallback;
}

double Call::Float(std::string_view name, double fallback) {
  const AttributeValue* value = node.FindAttribute(name);
  if (!value) return fallback;
  if (const auto* number = std::get_if<double>(value)) return *number;
  wrong_attribute_ = fmt::format("attribute {}: expected a number", name);
  return fallback;
}

std::string Call::Text(std::string_view name, std::string_view fallback) {
  const AttributeValue* value = node.FindAttribute(name);
  if (!value) return std::string(fallback);
  if (const auto* text = std::get_if<std::string>(value)) return *text;
  wrong_attribute_ = fmt::format("attribute {}: expected text", name);
  return std::string(fallback);
}

std::optional<Dims> Call::Ints(std::string_view name) {
  const AttributeValue* value = node.FindAttribute(name);
  if (!value) return std::nullopt;
  if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(value)) return *numbers;
  wrong_attribute_ = fmt::format("attribute {}: expected integers", name);
  return std::nullopt;
}

Status Call::CheckAttributes() const {
  if (wrong_attribute_) return Wrong(*wrong_attribute_);
  return {};
}

// ---- Outputs

Status Call::Set(std::size_t i, TensorId tensor) {
  const auto elements = CountElements(b.shape(tensor));
  if (!elements)
    return Wrong(
        fmt::format("gives {}: expected at most {} axes and 2^48 elements", ShapeText(b.shape(tensor)), kMostAxes));
  if (*elements == 0) return Wrong(fmt::format("gives {}: expected at least one element", ShapeText(b.shape(tensor))));
  if (Wants(i)) state_.values[node.outputs[i]].tensor = tensor;
  return {};
}

Status Call::SetContents(std::size_t i, Array contents) {
  state_.known_elements += static_cast<std::int64_t>(contents.stored());
  if (Wants(i)) state_.values[node.outputs[i]].contents = std::move(contents);
  return {};
}

void Call::SetSequence(std::size_t i, std::vector<TensorId> tensors) {
  if (Wants(i)) state_.values[node.outputs[i]].sequence = std::move(tensors);
}

tl::unexpected<Error> Call::Wrong(const std::string& what) const { return Fail("{}: {}", Describe(node), what); }

// ---- Rules

namespace {

const std::map<std::string_view, const OperatorRow*>& Operators() {
  static const auto* operators = [] {
    auto* map = new std::map<std::string_view, const OperatorRow*>;
    for (std::span<const OperatorRow> table :
         {ActivationRules(), ArithmeticRules(), ConvolutionRules(), PoolingRules(), NormalizationRules(), MatrixRules(),
          EinsumRules(), AttentionRules(), RecurrentRules(), ViewRules(), JoinRules(), IndexRules(), ReductionRules(),
          ResizeRules(), SourceRules(), SequenceRules()}) {
      for (const OperatorRow& row : table) map->emplace(row.op, &row);
    }
    return map;
  }();
  return *operators;
}

// Contents of the node's output, where all its inputs are known.
Folded TryFold(Lowering& state, const Node& node) {
  if (!IsFoldable(node) || state.known_elements > kMostKnownElementsOfAll) return std::nullopt;
  KnownInputs inputs;
  for (ValueId id : node.inputs) {
    inputs.push_back(id == kNoValue || !state.values[id].contents ? nullptr : &*state.values[id].contents);
    if (id != kNoValue && !inputs.back()) return std::nullopt;
    // The cost of folding is that of reading its inputs, whatever comes out.
    if (inputs.back()) state.known_elements += static_cast<std::int64_t>(inputs.back()->stored());
  }
  return Fold(node, inputs);
}

// The user knows better: every output is like the first input.
Status AssumeElementwise(Call& call) {
  std::vector<TensorId> inputs;
  for (std::size_t i = 0; i < call.node.inputs.size(); ++i) {
    if (!call.Has(i)) continue;
    EBB_ASSIGN_OR_RETURN(TensorId input, call.Tensor(i));
    inputs.push_back(input);
  }
  if (inputs.empty()) return call.Wrong("operator is not supported, and has no input whose shape it could keep");
  const Tensor first = call.b.at(inputs[0]);
  std::vector<OutputSpec> outputs(std::max<std::size_t>(call.node.outputs.size(), 1), {first.shape, first.dtype});
  std::vector<TensorId> results = call.b.Call(
      "assumed_elementwise", {{"inputs", TensorList{inputs}}, {"operator", call.node.op}}, std::move(outputs));
  for (std::size_t i = 0; i < results.size(); ++i) EBB_RETURN_IF_ERROR(call.Set(i, results[i]));
  return {};
}

Status RunRule(Lowering& state, Call& call) {
  const OperatorRow* row = FindOperator(call.node.op);
  if (!row) {
    if (state.options.assume_elementwise) return AssumeElementwise(call);
    return call.Wrong(
        "operator is not supported; --assume-elementwise goes on as if it kept the shape of its first input");
  }
  const std::size_t count = call.node.inputs.size();
  if (count < row->fewest_inputs || count > row->most_inputs) {
    const std::string range = row->fewest_inputs == row->most_inputs ? fmt::format("{}", row->fewest_inputs)
                              : row->most_inputs == kAnyNumber
                                  ? fmt::format("{} or more", row->fewest_inputs)
                                  : fmt::format("{} to {}", row->fewest_inputs, row->most_inputs);
    return call.Wrong(fmt::format("{} inputs: expected {}", count, range));
  }
  EBB_RETURN_IF_ERROR(row->rule(call));
  return call.CheckAttributes();
}

}  // namespace

const OperatorRow* FindOperator(std::string_view op) {
  auto found = Operators().find(op);
  return found == Operators().end() ? nullptr : found->second;
}

std::vector<std::string_view> OperatorNames() {
  std::vector<std::string_view> names;
  for (const auto& [name, row] : Operators()) names.push_back(name);
  return names;
}

Status LowerNode(Lowering& state, const Node& node) {
  Call call(state, node);
  if (Folded contents = TryFold(state, node)) return call.SetContents(0, std::move(*contents));
  state.b.set_layer(LayerOf(state, node));
  EBB_RETURN_IF_ERROR(RunRule(state, call));
  if (state.b.error()) return call.Wrong(state.b.error()->message);
  return {};
}

}  // namespace ebbtide::model::onnx
