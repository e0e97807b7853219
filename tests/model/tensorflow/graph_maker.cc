// Fills protobuf's objects, and helpers that read what comes of them.
#include "tests/model/tensorflow/graph_maker.h"

#include <gtest/gtest.h>

#include "model/tensorflow/tensorflow.h"

namespace ebbtide::model::tensorflow {
namespace {

void SetShape(proto::TensorShapeProto& shape, const Dims& sizes) {
  for (const std::int64_t size : sizes) shape.add_dim()->set_size(size);
}

}  // namespace

Nodes& Nodes::Node(const std::string& op, const std::string& name, const std::vector<std::string>& inputs) {
  proto::NodeDef& node = *nodes_->Add();
  node.set_op(op);
  node.set_name(name);
  for (const std::string& input : inputs) node.add_input(input);
  return *this;
}

proto::AttrValue& Nodes::Add(const std::string& attribute) {
  proto::AttrEntry& entry = *last().add_attr();
  entry.set_key(attribute);
  return *entry.mutable_value();
}

Nodes& Nodes::Text(const std::string& attribute, const std::string& value) {
  Add(attribute).set_s(value);
  return *this;
}
Nodes& Nodes::Flag(const std::string& attribute, bool value) {
  Add(attribute).set_b(value);
  return *this;
}
Nodes& Nodes::Type(const std::string& attribute, int type) {
  Add(attribute).set_type(type);
  return *this;
}
Nodes& Nodes::Sizes(const std::string& attribute, const Dims& values) {
  proto::ListValue& list = *Add(attribute).mutable_list();
  for (const std::int64_t value : values) list.add_i(value);
  return *this;
}
Nodes& Nodes::Shape(const std::string& attribute, const Dims& sizes) {
  SetShape(*Add(attribute).mutable_shape(), sizes);
  return *this;
}
Nodes& Nodes::Function(const std::string& attribute, const std::string& name) {
  Add(attribute).mutable_func()->set_name(name);
  return *this;
}

Nodes& Nodes::Input(const std::string& name, const Dims& shape, int type) {
  return Node("Placeholder", name).Type("dtype", type).Shape("shape", shape);
}

Nodes& Nodes::Weight(const std::string& name, const Dims& shape) {
  Node("Const", name).Type("dtype", kFloat);
  proto::TensorProto& tensor = *Add("value").mutable_tensor();
  tensor.set_dtype(kFloat);
  SetShape(*tensor.mutable_tensor_shape(), shape);
  return *this;
}

Nodes& Nodes::Integers(const std::string& name, const Dims& values) {
  Node("Const", name).Type("dtype", kInt32);
  proto::TensorProto& tensor = *Add("value").mutable_tensor();
  tensor.set_dtype(kInt32);
  SetShape(*tensor.mutable_tensor_shape(), {static_cast<std::int64_t>(values.size())});
  for (const std::int64_t value : values) tensor.add_int_val(static_cast<std::int32_t>(value));
  return *this;
}

Nodes& Nodes::Integer(const std::string& name, std::int64_t value) {
  Integers(name, {value});
  last().mutable_attr(1)->mutable_value()->mutable_tensor()->mutable_tensor_shape()->clear_dim();
  return *this;
}

Nodes& Nodes::Variable(const std::string& name, const Dims& shape) {
  return Node("VarHandleOp", name).Type("dtype", kFloat).Shape("shape", shape);
}

Nodes GraphMaker::Function(const std::string& name, const std::vector<std::string>& arguments,
                           const std::vector<std::string>& results) {
  proto::FunctionDef& function = *graph.mutable_library()->add_function();
  function.mutable_signature()->set_name(name);
  for (const std::string& argument : arguments) function.mutable_signature()->add_input_arg()->set_name(argument);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string result = "r" + std::to_string(i);
    function.mutable_signature()->add_output_arg()->set_name(result);
    proto::TextEntry& entry = *function.add_ret();
    entry.set_key(result);
    entry.set_value(results[i]);
  }
  return Nodes(function.mutable_node_def());
}

std::string GraphMaker::SavedModel(const std::string& input, const std::string& output) const {
  proto::SavedModel model;
  model.set_saved_model_schema_version(1);
  proto::MetaGraphDef& meta = *model.add_meta_graphs();
  *meta.mutable_graph_def() = graph;
  proto::SignatureEntry& signature = *meta.add_signature_def();
  signature.set_key("serving_default");
  proto::TensorInfoEntry& in = *signature.mutable_value()->add_inputs();
  in.set_key("x");
  in.mutable_value()->set_name(input);
  proto::TensorInfoEntry& out = *signature.mutable_value()->add_outputs();
  out.set_key("y");
  out.mutable_value()->set_name(output);
  return model.SerializeAsString();
}

GraphMaker SmallClassifier() {
  GraphMaker maker;
  maker.nodes()
      .Input("x", {-1, 8, 8, 3})
      .Weight("w", {3, 3, 3, 4})
      .Weight("b", {4})
      .Weight("v", {64, 5})
      .Integers("rows", {-1, 64})
      .Node("Conv2D", "conv", {"x", "w"})
      .Sizes("strides", {1, 1, 1, 1})
      .Text("padding", "SAME")
      .Node("BiasAdd", "biased", {"conv", "b"})
      .Node("Relu", "relu", {"biased"})
      .Node("MaxPool", "pool", {"relu"})
      .Sizes("ksize", {1, 2, 2, 1})
      .Sizes("strides", {1, 2, 2, 1})
      .Text("padding", "VALID")
      .Node("Reshape", "flat", {"pool", "rows"})
      .Node("MatMul", "y", {"flat", "v"});
  return maker;
}

ModelOptions BatchOf(std::int64_t batch) {
  ModelOptions options;
  options.batch_size = batch;
  return options;
}

std::string ErrorOf(const std::string& bytes, const ModelOptions& options) {
  const Result<TrainingGraph> graph = ParseModel("test.pb", bytes, options);
  return graph ? "no error" : graph.error().message;
}

TrainingGraph Parse(const std::string& bytes, const ModelOptions& options) {
  Result<TrainingGraph> graph = ParseModel("test.pb", bytes, options);
  EXPECT_TRUE(graph.has_value()) << (graph ? "" : graph.error().message);
  return graph.value_or(TrainingGraph());
}

}  // namespace ebbtide::model::tensorflow
