// Fills protobuf's objects, and helpers that read what comes of them.
#include "tests/model/onnx/onnx_model.h"

#include <gtest/gtest.h>

#include "graph/check.h"
#include "model/onnx/onnx.h"

namespace ebbtide::model::onnx {

namespace {

struct SetAttribute {
  ::ebbtide::onnx::AttributeProto& out;
  void operator()(std::int64_t value) const {
    out.set_type(2);
    out.set_i(value);
  }
  void operator()(int value) const { (*this)(std::int64_t{value}); }
  void operator()(double value) const {
    out.set_type(1);
    out.set_f(static_cast<float>(value));
  }
  void operator()(const std::string& value) const {
    out.set_type(3);
    out.set_s(value);
  }
  void operator()(const char* value) const { (*this)(std::string(value)); }
  void operator()(const std::vector<std::int64_t>& values) const {
    out.set_type(7);
    for (std::int64_t value : values) out.add_ints(value);
  }
};

}  // namespace

OnnxModel::OnnxModel(std::int64_t opset) {
  message.set_ir_version(8);
  message.add_opset_import()->set_version(opset);
  message.mutable_graph();
}

OnnxModel& OnnxModel::Input(const std::string& name, const std::vector<DimSpec>& shape, int type) {
  auto& input = *graph().add_input();
  input.set_name(name);
  auto& tensor = *input.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape();
  for (const DimSpec& size : shape) {
    auto& dim = *tensor.mutable_shape()->add_dim();
    if (const auto* symbol = std::get_if<const char*>(&size)) {
      dim.set_dim_param(*symbol);
    } else {
      dim.set_dim_value(std::holds_alternative<int>(size) ? std::get<int>(size) : std::get<std::int64_t>(size));
    }
  }
  return *this;
}

OnnxModel& OnnxModel::Weight(const std::string& name, const Dims& shape, int type) {
  auto& tensor = *graph().add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (std::int64_t size : shape) tensor.add_dims(size);
  return *this;
}

OnnxModel& OnnxModel::Integers(const std::string& name, const std::vector<std::int64_t>& values) {
  Weight(name, {static_cast<std::int64_t>(values.size())}, kInt64Type);
  auto& tensor = *graph().mutable_initializer(graph().initializer_size() - 1);
  for (std::int64_t value : values) tensor.add_int64_data(value);
  return *this;
}

OnnxModel& OnnxModel::Integer(const std::string& name, std::int64_t value) {
  Weight(name, {}, kInt64Type);
  graph().mutable_initializer(graph().initializer_size() - 1)->add_int64_data(value);
  return *this;
}

OnnxModel& OnnxModel::Numbers(const std::string& name, const std::vector<float>& values) {
  Weight(name, {static_cast<std::int64_t>(values.size())});
  auto& tensor = *graph().mutable_initializer(graph().initializer_size() - 1);
  for (float value : values) tensor.add_float_data(value);
  return *this;
}

OnnxModel& OnnxModel::Number(const std::string& name, float value) {
  Weight(name, {});
  graph().mutable_initializer(graph().initializer_size() - 1)->add_float_data(value);
  return *this;
}

OnnxModel& OnnxModel::Node(const std::string& op, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs, const std::vector<Attribute>& attributes) {
  auto& node = *graph().add_node();
  const std::size_t dot = op.rfind('.');
  if (dot != std::string::npos) node.set_domain(op.substr(0, dot));
  node.set_op_type(dot == std::string::npos ? op : op.substr(dot + 1));
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  for (const Attribute& attribute : attributes) {
    auto& added = *node.add_attribute();
    added.set_name(attribute.name);
    std::visit(SetAttribute{added}, attribute.value);
  }
  return *this;
}

OnnxModel& OnnxModel::Output(const std::string& name) {
  graph().add_output()->set_name(name);
  return *this;
}

OnnxModel SmallClassifier() {
  OnnxModel model;
  model.Input("x", {"batch", 3, 8, 8})
      .Weight("conv.weight", {4, 3, 3, 3})
      .Weight("bn.weight", {4})
      .Weight("bn.bias", {4})
      .Weight("bn.running_mean", {4})
      .Weight("bn.running_var", {4})
      .Weight("fc.weight", {5, 4})
      .Weight("fc.bias", {5})
      .Node("Conv", {"x", "conv.weight"}, {"a"})
      .Node("BatchNormalization", {"a", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"}, {"b"})
      .Node("Relu", {"b"}, {"c"})
      .Node("GlobalAveragePool", {"c"}, {"d"})
      .Node("Flatten", {"d"}, {"e"})
      .Node("Gemm", {"e", "fc.weight", "fc.bias"}, {"y"}, {{"transB", 1}})
      .Output("y");
  return model;
}

TrainingGraph ReadGood(const OnnxModel& model, const ModelOptions& options) {
  Result<TrainingGraph> graph = ParseModel("test.onnx", model.Bytes(), options);
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  return graph ? *graph : TrainingGraph{};
}

std::string ErrorOf(const OnnxModel& model, const ModelOptions& options) { return ErrorOf(model.Bytes(), options); }

std::string ErrorOf(const std::string& bytes, const ModelOptions& options) {
  Result<TrainingGraph> graph = ParseModel("test.onnx", bytes, options);
  return graph ? "no error" : graph.error().message;
}

std::vector<std::string> ForwardKinds(const TrainingGraph& graph) {
  std::vector<std::string> kinds;
  for (const Op& op : graph.ops) {
    if (op.phase == Phase::kForward) kinds.push_back(op.kind);
  }
  return kinds;
}

Dims ShapeOf(const TrainingGraph& graph, const std::string& kind) {
  for (const Op& op : graph.ops) {
    if (op.kind == kind && op.phase == Phase::kForward) return graph.tensor(op.outputs[0]).shape;
  }
  return {-1};
}

std::vector<std::string> ParameterNames(const TrainingGraph& graph) {
  std::vector<std::string> names;
  for (const Storage& storage : graph.storages) {
    if (storage.kind == StorageKind::kParameter) names.push_back(storage.name);
  }
  return names;
}

}  // namespace ebbtide::model::onnx
