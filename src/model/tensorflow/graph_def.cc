// From protobuf's objects to nodes, ports and attributes, with the nodes of each body in an order that can run.
#include "model/tensorflow/graph_def.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "base/json_text.h"
#include "model/tensorflow/output_names.h"
#include "model/tensorflow/tensorflow_subset.pb.h"

namespace ebbtide::model::tensorflow {

namespace proto = ::ebbtide::tensorflow;

std::optional<Type> TypeFromNumber(std::int64_t number) {
  constexpr std::int64_t kReference = 100;  // variables of TensorFlow 1
  if (number > kReference) number -= kReference;
  switch (number) {
    case 1: return Type{Kind::kNumbers, DType::kFloat32};
    case 2: return Type{Kind::kNumbers, DType::kFloat64};
    case 3:
    case 22: return Type{Kind::kNumbers, DType::kInt32};
    case 4: return Type{Kind::kNumbers, DType::kUInt8};
    case 5:
    case 17: return Type{Kind::kNumbers, DType::kInt16};
    case 6: return Type{Kind::kNumbers, DType::kInt8};
    case 7: return Type{Kind::kText, DType::kUInt8};
    case 8: return Type{Kind::kNumbers, DType::kComplex64};
    case 9:
    case 23: return Type{Kind::kNumbers, DType::kInt64};
    case 10: return Type{Kind::kNumbers, DType::kBool};
    case 14: return Type{Kind::kNumbers, DType::kBFloat16};
    case 18: return Type{Kind::kNumbers, DType::kComplex128};
    case 19: return Type{Kind::kNumbers, DType::kFloat16};
    case 20: return Type{Kind::kResource, DType::kUInt8};
    case 21: return Type{Kind::kVariant, DType::kUInt8};
    default: return std::nullopt;
  }
}

const Attribute* FindAttribute(const Attributes& attributes, std::string_view name) {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::string Describe(const Node& node) {
  constexpr std::size_t kMostLetters = 100;
  return fmt::format("node {} ({})", Quoted(node.name), node.op.substr(0, kMostLetters));
}

namespace {

// As far as they are in the structure. Repeated values may end early: the last one stands for the rest.
Array ContentsOf(const proto::TensorProto& tensor, DType dtype) {
  Array array{.dtype = dtype};
  if (dtype == DType::kFloat16 || dtype == DType::kBFloat16) return array;
  AppendRaw(tensor.tensor_content(), array);
  const auto append_integers = [&](const auto& values) {
    array.integers.insert(array.integers.end(), values.begin(), values.end());
  };
  if (dtype == DType::kFloat32)
    array.reals.insert(array.reals.end(), tensor.float_val().begin(), tensor.float_val().end());
  if (dtype == DType::kFloat64)
    array.reals.insert(array.reals.end(), tensor.double_val().begin(), tensor.double_val().end());
  if (dtype == DType::kInt64) append_integers(tensor.int64_val());
  if (dtype == DType::kBool) append_integers(tensor.bool_val());
  if (!array.is_real() && dtype != DType::kInt64 && dtype != DType::kBool) append_integers(tensor.int_val());
  return array;
}

Result<ShapeAttribute> ReadShape(const proto::TensorShapeProto& source) {
  if (source.unknown_rank()) return ShapeAttribute{};
  if (static_cast<std::size_t>(source.dim_size()) > kMostAxes)
    return Fail("{} axes: expected at most {}", source.dim_size(), kMostAxes);
  Dims sizes;
  for (const proto::Dim& dim : source.dim()) {
    if (dim.size() < -1 || dim.size() > kMostElements)
      return Fail("a size of {}: expected 0 to 2^48, or -1", dim.size());
    sizes.push_back(dim.size());
  }
  return ShapeAttribute{std::move(sizes)};
}

Result<Constant> ReadConstant(const proto::TensorProto& tensor) {
  Constant constant;
  const auto type = TypeFromNumber(tensor.dtype());
  if (!type) return Fail("data type {}: expected one of TensorFlow's", tensor.dtype());
  constant.type = *type;
  EBB_ASSIGN_OR_RETURN(const ShapeAttribute shape, ReadShape(tensor.tensor_shape()));
  const auto elements = shape.sizes ? CountElements(*shape.sizes) : std::nullopt;
  if (!elements) return Fail("expected a shape of at most 2^48 elements");
  constant.shape = *shape.sizes;
  if (type->kind != Kind::kNumbers) return constant;
  Array contents = ContentsOf(tensor, type->dtype);
  contents.shape = constant.shape;
  // No value at all means zeros. Of floats it may also mean that the weights were taken out, and nothing needs theirs.
  if (contents.stored() == 0 && !contents.is_real() && tensor.tensor_content().empty()) contents.integers = {0};
  const auto stored = static_cast<std::int64_t>(contents.stored());
  if (stored == *elements || stored == 1) {
    constant.contents = Simplified(std::move(contents));
  } else if (stored > 1 && stored < *elements && *elements <= kMostKnownElements && tensor.tensor_content().empty()) {
    if (contents.is_real()) contents.reals.resize(static_cast<std::size_t>(*elements), contents.reals.back());
    if (!contents.is_real()) contents.integers.resize(static_cast<std::size_t>(*elements), contents.integers.back());
    constant.contents = Simplified(std::move(contents));
  }
  return constant;
}

Result<std::optional<Attribute>> ReadAttribute(const proto::AttrValue& value) {
  if (value.has_tensor()) {
    EBB_ASSIGN_OR_RETURN(Constant constant, ReadConstant(value.tensor()));
    return Attribute(std::move(constant));
  }
  if (value.has_shape()) {
    EBB_ASSIGN_OR_RETURN(ShapeAttribute shape, ReadShape(value.shape()));
    return Attribute(std::move(shape));
  }
  if (value.has_s()) return Attribute(value.s());
  if (value.has_i()) return Attribute(value.i());
  if (value.has_f()) return Attribute(static_cast<double>(value.f()));
  if (value.has_b()) return Attribute(value.b());
  if (value.has_type()) return Attribute(TypeAttribute{value.type()});
  if (value.has_func()) return Attribute(FunctionAttribute{value.func().name()});
  if (value.has_list()) {
    const auto& numbers = value.list().i_size() > 0 ? value.list().i() : value.list().type();
    return Attribute(std::vector<std::int64_t>(numbers.begin(), numbers.end()));
  }
  return std::optional<Attribute>();
}

// An operator's, or a function's that is called like one.
bool IsOperatorName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
}

using Names = std::unordered_map<std::string, int>;

class Reader {
 public:
  Status ReadGraph(const proto::GraphDef& graph) {
    const auto& functions = graph.library().function();
    for (int i = 0; i < functions.size(); ++i) {
      const std::string& name = functions[i].signature().name();
      if (name.empty() || !IsUtf8(name)) return Fail("function {}: expected a name in UTF-8", i);
      if (!file_.function_numbers.emplace(name, i).second)
        return Fail("function {}: expected one of this name", Quoted(name));
    }
    library_ = &graph.library();
    for (const proto::FunctionDef& function : functions) {
      Result<Body> body = ReadFunction(function);
      if (!body) return Within("function " + Quoted(function.signature().name()), body.error());
      file_.functions.push_back(std::move(*body));
    }
    names_.clear();
    EBB_RETURN_IF_ERROR(ReadNodes(graph.node(), file_.graph));
    return Order(file_.graph);
  }

  Status ReadSignatures(const proto::MetaGraphDef& meta) {
    for (const proto::SignatureEntry& entry : meta.signature_def()) {
      Signature signature{.name = entry.key()};
      if (!IsUtf8(signature.name)) return Fail("a signature: expected a name in UTF-8");
      const auto read = [&](const auto& entries, auto& ports) -> Status {
        for (const proto::TensorInfoEntry& info : entries) {
          if (!IsUtf8(info.key())) return Fail("expected names in UTF-8");
          if (info.value().name().empty()) continue;  // sparse and composite tensors
          EBB_ASSIGN_OR_RETURN(const Port port, PortOf(info.value().name(), file_.graph));
          ports.emplace_back(info.key(), port);
        }
        // A map has no order; by name it is the same each time.
        std::sort(ports.begin(), ports.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        return {};
      };
      Status status = read(entry.value().inputs(), signature.inputs);
      if (status) status = read(entry.value().outputs(), signature.outputs);
      if (!status) return Within("signature " + Quoted(signature.name), status.error());
      file_.signatures.push_back(std::move(signature));
    }
    std::sort(file_.signatures.begin(), file_.signatures.end(),
              [](const Signature& a, const Signature& b) { return a.name < b.name; });
    for (const proto::SavedObject& object : meta.object_graph_def().nodes()) {
      if (object.has_variable()) file_.is_trainable[object.variable().name()] = object.variable().trainable();
    }
    return {};
  }

  File& file() { return file_; }

 private:
  Result<Body> ReadFunction(const proto::FunctionDef& source) {
    Body body{.name = source.signature().name()};
    names_.clear();
    for (const proto::ArgDef& argument : source.signature().input_arg()) {
      if (!IsUtf8(argument.name())) return Fail("an argument: expected a name in UTF-8");
      EBB_RETURN_IF_ERROR(AddName(argument.name(), body));
      body.nodes.push_back(
          {.name = argument.name(), .op = kArgument, .attributes = {{"T", Attribute(TypeAttribute{argument.type()})}}});
    }
    body.arguments = static_cast<int>(body.nodes.size());
    EBB_RETURN_IF_ERROR(ReadNodes(source.node_def(), body));
    std::unordered_map<std::string, const std::string*> results;
    for (const proto::TextEntry& entry : source.ret()) results[entry.key()] = &entry.value();
    for (const proto::ArgDef& result : source.signature().output_arg()) {
      const auto found = results.find(result.name());
      if (found == results.end()) return Fail("result {}: nothing returns it", Quoted(result.name()));
      EBB_ASSIGN_OR_RETURN(const Port port, PortOf(*found->second, body));
      body.results.push_back(port);
    }
    for (const proto::TextEntry& entry : source.control_ret()) {
      const auto found = names_.find(entry.value());
      if (found == names_.end()) return Fail("control result {}: expected a node", Quoted(entry.value()));
      body.control_results.push_back(found->second);
    }
    EBB_RETURN_IF_ERROR(Order(body));
    return body;
  }

  Status AddName(const std::string& name, const Body& body) {
    if (name.empty() || !IsUtf8(name)) return Fail("node {}: expected a name in UTF-8", body.nodes.size());
    if (!names_.emplace(name, static_cast<int>(body.nodes.size())).second)
      return Fail("node {}: expected one of this name", Quoted(name));
    return {};
  }

  template <class Nodes>
  Status ReadNodes(const Nodes& nodes, Body& body) {
    for (const proto::NodeDef& source : nodes) {
      EBB_RETURN_IF_ERROR(AddName(source.name(), body));
      Node node{.name = source.name(), .op = source.op()};
      if (!IsOperatorName(node.op))
        return Fail("node {}: expected the name of an operator, found {}", Quoted(node.name), Quoted(node.op));
      for (const proto::AttrEntry& entry : source.attr()) {
        if (entry.key().starts_with('_')) continue;
        Result<std::optional<Attribute>> attribute = ReadAttribute(entry.value());
        if (!attribute) return Within(Describe(node) + ": attribute " + Quoted(entry.key()), attribute.error());
        if (*attribute) node.attributes.emplace_back(entry.key(), std::move(**attribute));
      }
      body.nodes.push_back(std::move(node));
    }
    std::size_t number = static_cast<std::size_t>(body.arguments);
    for (const proto::NodeDef& source : nodes) {
      if (static_cast<std::size_t>(source.input_size()) > kMostNodeInputs)
        return Fail("{}: expected at most {} inputs", Describe(body.nodes[number]), kMostNodeInputs);
      for (const std::string& text : source.input()) {
        const Status status = ReadInput(text, body, body.nodes[number]);
        if (!status) return Within(Describe(body.nodes[number]), status.error());
      }
      ++number;
    }
    return {};
  }

  Status ReadInput(const std::string& text, const Body& body, Node& node) {
    if (text.starts_with('^')) {
      const auto found = names_.find(text.substr(1));
      if (found == names_.end()) return Fail("waits for {}, which is no node", Quoted(text));
      node.controls.push_back(found->second);
      return {};
    }
    EBB_ASSIGN_OR_RETURN(const Port port, PortOf(text, body));
    node.inputs.push_back(port);
    return {};
  }

  // "node", "node:1" or, in functions, "node:output_name:1".
  Result<Port> PortOf(const std::string& text, const Body& body) const {
    const std::size_t first = text.find(':');
    const auto found = names_.find(text.substr(0, first));
    if (found == names_.end()) return Fail("reads {}, which no node makes", Quoted(text));
    Port port{.node = found->second};
    if (first == std::string::npos) return port;
    const std::size_t second = text.find(':', first + 1);
    const std::string digits = text.substr((second == std::string::npos ? first : second) + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port.output);
    if (error != std::errc() || end != digits.data() + digits.size() || port.output < 0 || port.output > 65535)
      return Fail("reads {}: expected the number of an output", Quoted(text));
    if (second != std::string::npos) {
      const std::string output = text.substr(first + 1, second - first - 1);
      port.output += FirstOutput(body.nodes[static_cast<std::size_t>(port.node)].op, output);
    }
    return port;
  }

  // Where outputs of that name begin.
  int FirstOutput(const std::string& op, const std::string& output) const {
    const auto function = file_.function_numbers.find(op);
    if (function == file_.function_numbers.end()) return PlaceOfOutput(op, output);
    const auto& results = library_->function(function->second).signature().output_arg();
    for (int i = 0; i < results.size(); ++i) {
      if (results[i].name() == output) return i;
    }
    return 0;
  }

  // Depth first in the order of the file, without recursion.
  static Status Order(Body& body) {
    enum class Mark : std::uint8_t { kNew, kOpen, kDone };
    struct Step {
      int node = 0;
      std::size_t next = 0;
    };
    std::vector<Mark> marks(body.nodes.size(), Mark::kNew);
    std::vector<Step> path;
    for (std::size_t i = 0; i < body.nodes.size(); ++i) {
      if (marks[i] == Mark::kNew) path.push_back({static_cast<int>(i)});
      while (!path.empty()) {
        const int number = path.back().node;
        const Node& node = body.nodes[static_cast<std::size_t>(number)];
        Mark& mark = marks[static_cast<std::size_t>(number)];
        if (mark == Mark::kDone) {
          path.pop_back();
          continue;
        }
        mark = Mark::kOpen;
        const std::size_t next = path.back().next++;
        const std::size_t inputs = node.inputs.size();
        if (next >= inputs + node.controls.size()) {
          mark = Mark::kDone;
          body.order.push_back(number);
          path.pop_back();
          continue;
        }
        const int before = next < inputs ? node.inputs[next].node : node.controls[next - inputs];
        if (marks[static_cast<std::size_t>(before)] == Mark::kOpen)
          return Fail("{}: reads what depends on it: loops of TensorFlow 1 are not followed", Describe(node));
        if (marks[static_cast<std::size_t>(before)] == Mark::kNew) path.push_back({before});
      }
    }
    return {};
  }

  File file_;
  Names names_;  // of the body that is read
  const proto::FunctionDefLibrary* library_ = nullptr;
};

}  // namespace

Result<File> ParseGraphDef(const std::string& structure) {
  proto::GraphDef graph;
  if (!graph.ParsePartialFromString(structure) || graph.node_size() == 0)
    return Fail("expected a TensorFlow GraphDef with nodes");
  Reader reader;
  EBB_RETURN_IF_ERROR(reader.ReadGraph(graph));
  return std::move(reader.file());
}

Result<File> ParseSavedModel(const std::string& structure) {
  proto::SavedModel model;
  if (!model.ParsePartialFromString(structure) || model.meta_graphs_size() == 0)
    return Fail("expected a SavedModel with a graph");
  const proto::MetaGraphDef& meta = model.meta_graphs(0);
  if (meta.graph_def().node_size() == 0) return Fail("expected a SavedModel whose first graph has nodes");
  Reader reader;
  EBB_RETURN_IF_ERROR(reader.ReadGraph(meta.graph_def()));
  EBB_RETURN_IF_ERROR(reader.ReadSignatures(meta));
  if (IsUtf8(meta.meta_info_def().tensorflow_version()))
    reader.file().version = meta.meta_info_def().tensorflow_version();
  return std::move(reader.file());
}

}  // namespace ebbtide::model::tensorflow
