// From protobuf's objects to nodes and numbers; everything that a file may have wrong about names is found here.
#include "model/onnx/file.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "base/json_text.h"
#include "model/onnx/onnx_subset.pb.h"

namespace ebbtide::model::onnx {

const AttributeValue* Node::FindAttribute(std::string_view wanted) const {
  for (const auto& [name, value] : attributes) {
    if (name == wanted) return &value;
  }
  return nullptr;
}

std::string Describe(const Node& node) {
  if (node.name.empty()) return fmt::format("node {} (op {})", node.number, node.op);
  return fmt::format("node {} (name {}, op {})", node.number, Quoted(node.name), node.op);
}

// Unsigned types that torch does not train with stand for signed ones of their size.
std::optional<DType> TypeFromNumber(std::int64_t number) {
  switch (number) {
    case 1: return DType::kFloat32;
    case 2: return DType::kUInt8;
    case 3: return DType::kInt8;
    case 4:
    case 5: return DType::kInt16;
    case 6:
    case 12: return DType::kInt32;
    case 7:
    case 13: return DType::kInt64;
    case 9: return DType::kBool;
    case 10: return DType::kFloat16;
    case 11: return DType::kFloat64;
    case 14: return DType::kComplex64;
    case 15: return DType::kComplex128;
    case 16: return DType::kBFloat16;
    default: return std::nullopt;
  }
}

namespace {

namespace proto = ::ebbtide::onnx;

// Contents as far as they are in the structure; the caller compares their number with the shape's.
Array ContentsOf(const proto::TensorProto& tensor, DType dtype) {
  Array array{.dtype = dtype};
  AppendRaw(tensor.raw_data(), array);
  const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  for (std::int32_t value : tensor.int32_data()) {
    if (is_half) array.reals.push_back(HalfToDouble(static_cast<std::uint16_t>(value), dtype));
    if (!array.is_real()) array.integers.push_back(value);
  }
  if (dtype == DType::kInt64)
    array.integers.insert(array.integers.end(), tensor.int64_data().begin(), tensor.int64_data().end());
  if (dtype == DType::kFloat32)
    array.reals.insert(array.reals.end(), tensor.float_data().begin(), tensor.float_data().end());
  if (dtype == DType::kFloat64)
    array.reals.insert(array.reals.end(), tensor.double_data().begin(), tensor.double_data().end());
  return array;
}

Result<Constant> ReadConstant(const proto::TensorProto& tensor) {
  Constant constant;
  const auto dtype = TypeFromNumber(tensor.data_type());
  if (!dtype) return Fail("data type {}: expected numbers of a type that torch has", tensor.data_type());
  constant.dtype = *dtype;
  constant.shape.assign(tensor.dims().begin(), tensor.dims().end());
  const auto elements = CountElements(constant.shape);
  if (!elements) {
    return Fail("expected at most {} axes, none negative, and at most 2^48 elements", kMostAxes);
  }
  Array contents = ContentsOf(tensor, *dtype);
  contents.shape = constant.shape;
  if (static_cast<std::int64_t>(contents.stored()) == *elements) constant.contents = Simplified(std::move(contents));
  return constant;
}

class FileReader {
 public:
  explicit FileReader(const proto::ModelProto& model) : model_(model), graph_(model.graph()) {}

  Result<File> Read() {
    EBB_RETURN_IF_ERROR(ReadVersions());
    if (IsUtf8(model_.producer_name()) && IsUtf8(model_.producer_version())) {
      file_.producer = model_.producer_name() + " " + model_.producer_version();
    }
    EBB_RETURN_IF_ERROR(ReadInitializers());
    EBB_RETURN_IF_ERROR(ReadInputs());
    EBB_RETURN_IF_ERROR(CollectOutputsOfNodes());
    for (int i = 0; i < graph_.node_size(); ++i) EBB_RETURN_IF_ERROR(ReadNode(i));
    EBB_RETURN_IF_ERROR(ReadOutputs());
    TakeConstantNodes();
    return std::move(file_);
  }

 private:
  Status ReadVersions() {
    if (!model_.has_graph()) return Fail("expected an ONNX model with a graph");
    if (model_.ir_version() < 3) return Fail("ir_version {}: expected 3 or later", model_.ir_version());
    for (const proto::OperatorSetIdProto& opset : model_.opset_import()) {
      if (opset.domain().empty() || opset.domain() == "ai.onnx") file_.opset = opset.version();
    }
    if (file_.opset < kOldestOpset || file_.opset > kNewestOpset) {
      return Fail("opset {}: expected {} to {}", file_.opset, kOldestOpset, kNewestOpset);
    }
    return {};
  }

  static Status CheckText(std::string_view what, const std::string& text) {
    if (!IsUtf8(text)) return Fail("{} {}: expected UTF-8", what, Quoted(text));
    return {};
  }

  // The number of a name, which may be new.
  ValueId Intern(const std::string& name) {
    auto [found, is_new] = ids_.try_emplace(name, static_cast<ValueId>(file_.values.size()));
    if (is_new) {
      file_.values.push_back(name);
      maker_.push_back(kNothing);
    }
    return found->second;
  }

  Status ReadInitializers() {
    for (int i = 0; i < graph_.initializer_size(); ++i) {
      const proto::TensorProto& tensor = graph_.initializer(i);
      const std::string place = fmt::format("initializer {} ({})", i, Quoted(tensor.name()));
      EBB_RETURN_IF_ERROR(CheckText(fmt::format("initializer {}: name", i), tensor.name()));
      if (tensor.name().empty()) return Fail("initializer {}: expected a name", i);
      Result<Constant> constant = ReadConstant(tensor);
      if (!constant) return Within(place, constant.error());
      const ValueId id = Intern(tensor.name());
      if (maker_[id] != kNothing) return Fail("{}: expected one initializer of this name", place);
      maker_[id] = kOutside;
      file_.initializers.resize(file_.values.size());
      file_.initializers[id] = std::move(*constant);
    }
    return {};
  }

  Status ReadInputs() {
    for (int i = 0; i < graph_.input_size(); ++i) {
      const proto::ValueInfoProto& info = graph_.input(i);
      EBB_RETURN_IF_ERROR(CheckText(fmt::format("input {}: name", i), info.name()));
      const std::string place = fmt::format("input {} ({})", i, Quoted(info.name()));
      if (info.name().empty()) return Fail("{}: expected a name", place);
      const ValueId id = Intern(info.name());
      file_.initializers.resize(file_.values.size());
      if (file_.initializers[id]) continue;  // files of before IR version 4 list their weights here, too
      if (maker_[id] != kNothing) return Fail("{}: expected one input of this name", place);
      maker_[id] = kOutside;
      if (!info.type().has_tensor_type()) return Fail("{}: expected a tensor", place);
      const proto::TensorTypeProto& type = info.type().tensor_type();
      InputTensor input{.value = id};
      const auto dtype = TypeFromNumber(type.elem_type());
      if (!dtype)
        return Fail("{}: element type {}: expected numbers of a type that torch has", place, type.elem_type());
      input.dtype = *dtype;
      if (!type.has_shape()) return Fail("{}: expected a shape", place);
      if (static_cast<std::size_t>(type.shape().dim_size()) > kMostAxes) {
        return Fail("{}: {} axes: expected at most {}", place, type.shape().dim_size(), kMostAxes);
      }
      for (const proto::DimensionProto& dim : type.shape().dim()) {
        if (dim.has_dim_value() && (dim.dim_value() <= 0 || dim.dim_value() > kMostElements)) {
          return Fail("{}: axis {} of size {}: expected 1 to 2^48, or a symbol", place, input.shape.size(),
                      dim.dim_value());
        }
        EBB_RETURN_IF_ERROR(CheckText(place + ": symbol", dim.dim_param()));
        input.shape.push_back({dim.dim_value(), dim.has_dim_value() ? "" : dim.dim_param()});
      }
      file_.inputs.push_back(std::move(input));
    }
    return {};
  }

  // First, so that a node which reads a later one's output can be told from one that reads what nothing makes.
  Status CollectOutputsOfNodes() {
    for (int i = 0; i < graph_.node_size(); ++i) {
      for (const std::string& name : graph_.node(i).output()) {
        if (name.empty()) continue;
        EBB_RETURN_IF_ERROR(CheckText(DescribeProto(i) + ": output", name));
        const ValueId id = Intern(name);
        if (maker_[id] == kOutside) {
          return Fail("{}: makes {}, which is an input or initializer: expected a new name", DescribeProto(i),
                      Quoted(name));
        }
        if (maker_[id] != kNothing) {
          return Fail("{}: makes {}, as does {}: expected a new name", DescribeProto(i), Quoted(name),
                      DescribeProto(maker_[id]));
        }
        maker_[id] = i;
      }
    }
    return {};
  }

  std::string DescribeProto(int i) const {
    const proto::NodeProto& node = graph_.node(i);
    return Describe({.number = i, .name = node.name(), .op = SafeOp(node)});
  }

  static std::string SafeOp(const proto::NodeProto& node) {
    const bool is_default = node.domain().empty() || node.domain() == "ai.onnx";
    std::string op = is_default ? node.op_type() : node.domain() + "." + node.op_type();
    std::string quoted = Quoted(op);
    return quoted.size() == op.size() + 2 ? op : quoted;
  }

  Status ReadNode(int i) {
    const proto::NodeProto& source = graph_.node(i);
    Node node{.number = i, .name = source.name(), .op = SafeOp(source)};
    EBB_RETURN_IF_ERROR(CheckText(fmt::format("node {}: name", i), source.name()));
    EBB_RETURN_IF_ERROR(CheckText(fmt::format("node {}: op_type", i), source.op_type()));
    EBB_RETURN_IF_ERROR(CheckText(fmt::format("node {}: domain", i), source.domain()));
    if (source.op_type().empty()) return Fail("node {}: expected an op_type", i);
    if (std::max<std::size_t>(source.input_size(), source.output_size()) > kMostNodeValues) {
      return Fail("{}: expected at most {} inputs and outputs", DescribeProto(i), kMostNodeValues);
    }
    for (const std::string& name : source.input()) {
      if (name.empty()) {
        node.inputs.push_back(kNoValue);
        continue;
      }
      auto found = ids_.find(name);
      if (found == ids_.end()) {
        return Fail("{}: reads {}, which no input, initializer or node makes", DescribeProto(i), Quoted(name));
      }
      if (const int maker = maker_[found->second]; maker >= i) {
        return Fail("{}: reads {}, which {} makes: expected nodes in order, without cycles", DescribeProto(i),
                    Quoted(name), maker == i ? "it" : DescribeProto(maker));
      }
      node.inputs.push_back(found->second);
    }
    for (const std::string& name : source.output()) node.outputs.push_back(name.empty() ? kNoValue : ids_.at(name));
    for (const proto::AttributeProto& attribute : source.attribute())
      EBB_RETURN_IF_ERROR(ReadAttribute(i, attribute, node));
    file_.nodes.push_back(std::move(node));
    return {};
  }

  // Older files do not give the type; the field that is set does then. Graphs and lists of tensors are left out.
  Status ReadAttribute(int i, const proto::AttributeProto& source, Node& node) {
    AttributeValue value;
    const int type = source.type();
    if (source.has_t()) {
      Result<Constant> constant = ReadConstant(source.t());
      if (!constant) {
        return Within(fmt::format("{}: attribute {}", DescribeProto(i), Quoted(source.name())), constant.error());
      }
      value = std::move(*constant);
    } else if (type == 1 || (type == 0 && source.has_f())) {
      value = static_cast<double>(source.f());
    } else if (type == 2 || (type == 0 && source.has_i())) {
      value = source.i();
    } else if (type == 3 || (type == 0 && source.has_s())) {
      value = source.s();
    } else if (type == 6 || (type == 0 && source.floats_size() > 0)) {
      value = std::vector<double>(source.floats().begin(), source.floats().end());
    } else if (type == 7 || (type == 0 && source.ints_size() > 0)) {
      value = std::vector<std::int64_t>(source.ints().begin(), source.ints().end());
    } else {
      return {};
    }
    node.attributes.emplace_back(source.name(), std::move(value));
    return {};
  }

  Status ReadOutputs() {
    if (graph_.output_size() == 0) return Fail("graph: expected at least one output");
    for (int i = 0; i < graph_.output_size(); ++i) {
      const std::string& name = graph_.output(i).name();
      auto found = ids_.find(name);
      if (found == ids_.end() || maker_[found->second] == kNothing) {
        return Fail("output {} ({}): no input, initializer or node makes it", i, Quoted(name));
      }
      file_.outputs.push_back(found->second);
    }
    return {};
  }

  // A constant is the same thing whether it is listed as an initializer or as a node.
  void TakeConstantNodes() {
    file_.initializers.resize(file_.values.size());
    std::erase_if(file_.nodes, [&](const Node& node) {
      if (node.op != "Constant" || node.outputs.size() != 1 || node.outputs[0] == kNoValue) return false;
      std::optional<Constant> constant = ConstantOf(node);
      if (!constant) return false;
      constant->from_node = true;
      file_.initializers[node.outputs[0]] = std::move(constant);
      return true;
    });
  }

  static std::optional<Constant> ConstantOf(const Node& node) {
    if (const auto* tensor = node.Get<Constant>("value")) return *tensor;
    std::optional<Array> array;
    if (const auto* value = node.Get<std::int64_t>("value_int")) array = IntegerArray({}, {*value});
    if (const auto* value = node.Get<double>("value_float")) array = RealArray({}, {*value});
    if (const auto* values = node.Get<std::vector<std::int64_t>>("value_ints")) {
      array = IntegerArray({static_cast<std::int64_t>(values->size())}, *values);
    }
    if (const auto* values = node.Get<std::vector<double>>("value_floats")) {
      array = RealArray({static_cast<std::int64_t>(values->size())}, *values);
    }
    if (!array) return std::nullopt;
    return Constant{.dtype = array->dtype, .shape = array->shape, .contents = array};
  }

  static constexpr int kNothing = -2, kOutside = -1;

  const proto::ModelProto& model_;
  const proto::GraphProto& graph_;
  File file_;
  std::unordered_map<std::string, ValueId> ids_;
  std::vector<int> maker_;  // by value: its node, kOutside, or kNothing
};

}  // namespace

Result<File> ParseFile(const std::string& structure) {
  proto::ModelProto model;
  if (!model.ParsePartialFromString(structure)) return Fail("expected an ONNX model");
  return FileReader(model).Read();
}

void DropUnused(File& file) {
  std::vector<bool> needed(file.values.size());
  for (ValueId id : file.outputs) needed[id] = true;
  std::vector<bool> keep(file.nodes.size());
  for (std::size_t i = file.nodes.size(); i-- > 0;) {
    for (ValueId id : file.nodes[i].outputs) keep[i] = keep[i] || (id != kNoValue && needed[id]);
    if (!keep[i]) continue;
    for (ValueId id : file.nodes[i].inputs) {
      if (id != kNoValue) needed[id] = true;
    }
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < file.nodes.size(); ++i) {
    if (!keep[i]) continue;
    if (kept != i) file.nodes[kept] = std::move(file.nodes[i]);
    ++kept;
  }
  file.nodes.resize(kept);
}

}  // namespace ebbtide::model::onnx
