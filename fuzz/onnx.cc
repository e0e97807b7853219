// The reader of ONNX files: whatever the bytes are, a training graph that passes Check or one line of complaint.
// Bytes are mutated as they are and, since few of those still are a model, as messages: operators, wiring, sizes.
#include "model/onnx/onnx.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "fuzz/require.h"
#include "graph/check.h"
#include "graph/summary.h"
#include "model/onnx/lower.h"
#include "model/onnx/onnx_subset.pb.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using namespace ebbtide;
namespace proto = ebbtide::onnx;

// ---- A small model to begin with.

void AddInput(proto::GraphProto& graph, const std::string& name, int type, std::initializer_list<std::int64_t> dims) {
  proto::ValueInfoProto& input = *graph.add_input();
  input.set_name(name);
  proto::TensorTypeProto& tensor = *input.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  for (std::int64_t size : dims) {
    proto::DimensionProto& dim = *tensor.mutable_shape()->add_dim();
    size > 0 ? dim.set_dim_value(size) : dim.set_dim_param("batch");
  }
}

void AddWeight(proto::GraphProto& graph, const std::string& name, std::initializer_list<std::int64_t> dims) {
  proto::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(1);
  for (std::int64_t size : dims) tensor.add_dims(size);
}

void AddIntegers(proto::GraphProto& graph, const std::string& name, std::initializer_list<std::int64_t> values) {
  proto::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(7);
  tensor.add_dims(static_cast<std::int64_t>(values.size()));
  for (std::int64_t value : values) tensor.add_int64_data(value);
}

proto::NodeProto& AddNode(proto::GraphProto& graph, const std::string& op, std::initializer_list<const char*> inputs,
                          const std::string& output) {
  proto::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  for (const char* input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

proto::ModelProto SmallModel() {
  proto::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  proto::GraphProto& graph = *model.mutable_graph();
  AddInput(graph, "x", 1, {0, 3, 8, 8});
  AddInput(graph, "tokens", 7, {0, 4});
  AddWeight(graph, "conv.weight", {4, 3, 3, 3});
  AddWeight(graph, "bn.weight", {4});
  AddWeight(graph, "fc.weight", {5, 4});
  AddWeight(graph, "embed.weight", {7, 4});
  AddIntegers(graph, "shape", {0, -1});
  AddIntegers(graph, "one", {1});
  AddNode(graph, "Conv", {"x", "conv.weight"}, "a");
  AddNode(graph, "BatchNormalization", {"a", "bn.weight", "bn.weight", "bn.weight", "bn.weight"}, "b");
  AddNode(graph, "Relu", {"b"}, "c");
  AddNode(graph, "GlobalAveragePool", {"c"}, "d");
  AddNode(graph, "Reshape", {"d", "shape"}, "e");
  AddNode(graph, "Gather", {"embed.weight", "tokens"}, "f");
  AddNode(graph, "ReduceSum", {"f", "one"}, "g");
  AddNode(graph, "Squeeze", {"g", "one"}, "h");
  AddNode(graph, "Add", {"e", "h"}, "i");
  proto::AttributeProto& transposed = *AddNode(graph, "Gemm", {"i", "fc.weight"}, "y").add_attribute();
  transposed.set_name("transB");
  transposed.set_i(1);
  graph.add_output()->set_name("y");
  return model;
}

// ---- Mutations of the message.

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  void Mutate(proto::ModelProto& model) {
    proto::GraphProto& graph = *model.mutable_graph();
    for (int i = 1 + Below(3); i > 0; --i) {
      switch (Below(10)) {
        case 0:
        case 1:
        case 2: AddRandomNode(graph); break;
        case 3: Rewire(graph); break;
        case 4: ChangeOperator(graph); break;
        case 5: ChangeAttribute(graph); break;
        case 6: ChangeConstant(graph); break;
        case 7: ChangeInput(graph); break;
        case 8: model.mutable_opset_import(0)->set_version(9 + Below(21)); break;
        case 9:
          if (graph.node_size() > 1) graph.mutable_node()->DeleteSubrange(Below(graph.node_size()), 1);
          break;
      }
    }
    // What was added last is what the loss depends on.
    if (Below(4) > 0 && graph.node_size() > 0 && graph.output_size() > 0) {
      const proto::NodeProto& last = graph.node(graph.node_size() - 1);
      if (last.output_size() > 0) graph.mutable_output(0)->set_name(last.output(0));
    }
  }

 private:
  int Below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(std::max(bound, 1))); }

  std::int64_t Number() {
    static constexpr std::int64_t kNumbers[] = {0,
                                                1,
                                                2,
                                                3,
                                                4,
                                                5,
                                                7,
                                                8,
                                                -1,
                                                -2,
                                                -3,
                                                16,
                                                64,
                                                1 << 20,
                                                INT64_MAX,
                                                INT64_MIN,
                                                std::int64_t{1} << 31,
                                                std::int64_t{1} << 40,
                                                std::int64_t{1} << 62};
    return kNumbers[Below(Below(2) ? 9 : std::size(kNumbers))];
  }

  std::string Operator() {
    static const auto names = model::onnx::OperatorNames();
    return std::string(names[Below(static_cast<int>(names.size()))]);
  }

  std::string AnyValue(const proto::GraphProto& graph) {
    std::vector<std::string> names;
    for (const auto& input : graph.input()) names.push_back(input.name());
    for (const auto& tensor : graph.initializer()) names.push_back(tensor.name());
    for (const auto& node : graph.node()) names.insert(names.end(), node.output().begin(), node.output().end());
    return names.empty() ? "" : names[Below(static_cast<int>(names.size()))];
  }

  void AddRandomNode(proto::GraphProto& graph) {
    proto::NodeProto& node = *graph.add_node();
    std::string op = Operator();
    const std::size_t dot = op.find('.');
    if (dot != std::string::npos) node.set_domain(op.substr(0, dot));
    node.set_op_type(dot == std::string::npos ? op : op.substr(dot + 1));
    const auto* row = model::onnx::FindOperator(op);
    const int least = static_cast<int>(row->fewest_inputs),
              most = static_cast<int>(std::min<std::size_t>(row->most_inputs, 5));
    for (int i = least + Below(most - least + 1); i > 0; --i) node.add_input(AnyValue(graph));
    const int outputs = 1 + (Below(4) == 0 ? Below(3) : 0);
    for (int i = 0; i < outputs; ++i) node.add_output("v" + std::to_string(random_()));
    for (int i = Below(3); i > 0; --i) AddAttribute(node);
  }

  void AddAttribute(proto::NodeProto& node) {
    static constexpr const char* kNames[] = {"axis",
                                             "axes",
                                             "perm",
                                             "kernel_shape",
                                             "strides",
                                             "pads",
                                             "dilations",
                                             "group",
                                             "keepdims",
                                             "to",
                                             "transA",
                                             "transB",
                                             "split",
                                             "num_groups",
                                             "hidden_size",
                                             "blocksize",
                                             "mode",
                                             "equation",
                                             "ratio",
                                             "auto_pad",
                                             "ceil_mode",
                                             "value",
                                             "output_padding",
                                             "batch_dims",
                                             "start",
                                             "end",
                                             "shape",
                                             "q_num_heads",
                                             "kv_num_heads",
                                             "is_causal",
                                             "key_order",
                                             "turned",
                                             "dropout",
                                             "upper",
                                             "allowzero",
                                             "new_axis",
                                             "noop_with_empty_axes",
                                             "dtype",
                                             "approximate"};
    static constexpr const char* kTexts[] = {"",           "linear",    "reflect",      "edge", "cubic",
                                             "SAME_UPPER", "ij,jk->ik", "bij,bjk->bik", "tanh", "forward"};
    proto::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(kNames[Below(std::size(kNames))]);
    switch (Below(5)) {
      case 0:
        attribute.set_i(Number());
        attribute.set_type(2);
        break;
      case 1:
        attribute.set_f(static_cast<float>(Number()) / 2);
        attribute.set_type(1);
        break;
      case 2:
        attribute.set_s(kTexts[Below(std::size(kTexts))]);
        attribute.set_type(3);
        break;
      default:
        attribute.set_type(7);
        for (int i = Below(6); i > 0; --i) attribute.add_ints(Number());
    }
  }

  proto::NodeProto* AnyNode(proto::GraphProto& graph) {
    return graph.node_size() > 0 ? graph.mutable_node(Below(graph.node_size())) : nullptr;
  }

  void Rewire(proto::GraphProto& graph) {
    proto::NodeProto* node = AnyNode(graph);
    if (node && node->input_size() > 0) node->set_input(Below(node->input_size()), Below(8) ? AnyValue(graph) : "");
  }

  void ChangeOperator(proto::GraphProto& graph) {
    if (proto::NodeProto* node = AnyNode(graph)) node->set_op_type(Operator());
  }

  void ChangeAttribute(proto::GraphProto& graph) {
    proto::NodeProto* node = AnyNode(graph);
    if (!node) return;
    if (node->attribute_size() > 0 && Below(2))
      node->mutable_attribute()->DeleteSubrange(Below(node->attribute_size()), 1);
    AddAttribute(*node);
  }

  void ChangeConstant(proto::GraphProto& graph) {
    if (graph.initializer_size() == 0 || Below(3) == 0) {
      proto::TensorProto& tensor = *graph.add_initializer();
      tensor.set_name("w" + std::to_string(random_()));
      tensor.set_data_type(Below(2) ? 1 : 7);
      const int rank = Below(5);
      for (int i = 0; i < rank; ++i) tensor.add_dims(1 + Below(4));
      return;
    }
    proto::TensorProto& tensor = *graph.mutable_initializer(Below(graph.initializer_size()));
    switch (Below(4)) {
      case 0:
        if (tensor.dims_size() > 0) tensor.set_dims(Below(tensor.dims_size()), Number());
        break;
      case 1: tensor.set_data_type(Below(18)); break;
      case 2:
        if (tensor.int64_data_size() > 0) tensor.set_int64_data(Below(tensor.int64_data_size()), Number());
        break;
      case 3:
        tensor.clear_dims();
        tensor.clear_int64_data();
        tensor.clear_float_data();
        tensor.set_data_type(Below(3) ? 7 : 1);
        const int count = Below(5);
        if (count > 0 || Below(2)) tensor.add_dims(count);
        for (int i = std::max(count, tensor.dims_size() == 0 ? 1 : 0); i > 0; --i) {
          tensor.data_type() == 7 ? tensor.add_int64_data(Number())
                                  : tensor.add_float_data(static_cast<float>(Number()) / 2);
        }
    }
  }

  void ChangeInput(proto::GraphProto& graph) {
    if (graph.input_size() == 0) return;
    proto::TensorTypeProto& tensor =
        *graph.mutable_input(Below(graph.input_size()))->mutable_type()->mutable_tensor_type();
    proto::TensorShapeProto& shape = *tensor.mutable_shape();
    if (Below(4) == 0) tensor.set_elem_type(Below(17));
    if (Below(3) == 0) shape.add_dim()->set_dim_value(1 + Below(8));
    if (Below(3) == 0 && shape.dim_size() > 0) shape.mutable_dim()->RemoveLast();
    if (shape.dim_size() > 0 && Below(2)) shape.mutable_dim(Below(shape.dim_size()))->set_dim_value(Number());
  }

  std::minstd_rand random_;
};

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  if (seed % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  proto::ModelProto model;
  const bool parsed = model.ParsePartialFromArray(data, static_cast<int>(size));
  if (!parsed || model.graph().node_size() == 0 || model.opset_import_size() == 0) model = SmallModel();
  Mutator(seed).Mutate(model);
  const std::string bytes = model.SerializePartialAsString();
  if (bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  model::ModelOptions options;
  options.batch_size = 2;
  options.assume_elementwise = size % 4 == 1;
  options.device = size % 2 == 0 ? model::Device::kCpu : model::Device::kCuda;
  auto graph = model::onnx::ParseModel("fuzz.onnx", content, options);
  if (!graph && graph.error().message.find("symbolic") != std::string::npos) {
    options.seq_len = options.image_size = 8;
    graph = model::onnx::ParseModel("fuzz.onnx", content, options);
  }
  if (!graph) {
    const std::string& message = graph.error().message;
    RequireOneLine(message, "fuzz.onnx", 2000);
    Require(!message.starts_with("fuzz.onnx: the training graph: "), "what is built passes Check");
    return 0;
  }
  Require(Check(*graph).has_value(), "what is built passes Check");
  Require(Summarize(*graph).parameters > 0, "something is trained");
  return 0;
}
