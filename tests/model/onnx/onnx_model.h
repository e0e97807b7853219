// Small ONNX files for tests, written with the public field numbers.
#pragma once

#include <initializer_list>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "model/model.h"
#include "model/onnx/onnx_subset.pb.h"

namespace ebbtide::model::onnx {

// ONNX's numbers for element types.
inline constexpr int kFloat = 1, kInt64Type = 7, kBoolType = 9, kHalf = 10;

// A fixed size or a symbol.
using DimSpec = std::variant<int, std::int64_t, const char*>;

struct Attribute {
  std::string name;
  std::variant<std::int64_t, int, double, std::string, const char*, std::vector<std::int64_t>> value;
};

class OnnxModel {
 public:
  explicit OnnxModel(std::int64_t opset = 17);

  OnnxModel& Input(const std::string& name, const std::vector<DimSpec>& shape, int type = kFloat);
  OnnxModel& Weight(const std::string& name, const Dims& shape, int type = kFloat);  // without contents
  OnnxModel& Integers(const std::string& name, const std::vector<std::int64_t>& values);
  OnnxModel& Integer(const std::string& name, std::int64_t value);  // without axes
  OnnxModel& Numbers(const std::string& name, const std::vector<float>& values);
  OnnxModel& Number(const std::string& name, float value);  // without axes
  OnnxModel& Node(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs, const std::vector<Attribute>& attributes = {});
  OnnxModel& Output(const std::string& name);

  std::string Bytes() const { return message.SerializePartialAsString(); }

  ::ebbtide::onnx::ModelProto message;

 private:
  ::ebbtide::onnx::GraphProto& graph() { return *message.mutable_graph(); }
};

// A convolution, a batch norm, a ReLU and a classifier over [batch, 3, 8, 8]; "y" is [batch, 5].
OnnxModel SmallClassifier();

inline ModelOptions Batch(std::int64_t size) {
  ModelOptions options;
  options.batch_size = size;
  options.optimizer = "none";
  return options;
}

// The graph of a model that is expected to be read.
TrainingGraph ReadGood(const OnnxModel& model, const ModelOptions& options = Batch(2));
// The complaint about one that is not; "no error" if there is none.
std::string ErrorOf(const OnnxModel& model, const ModelOptions& options = Batch(2));
std::string ErrorOf(const std::string& bytes, const ModelOptions& options = Batch(2));

// Kinds of the forward ops, in order.
std::vector<std::string> ForwardKinds(const TrainingGraph& graph);
// Shape of the first output of the first forward op of that kind; {-1} if there is none.
Dims ShapeOf(const TrainingGraph& graph, const std::string& kind);
// Names of the parameters, in order.
std::vector<std::string> ParameterNames(const TrainingGraph& graph);

}  // namespace ebbtide::model::onnx
