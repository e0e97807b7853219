// Small graphs of TensorFlow, written as tests read them.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "model/model.h"
#include "model/tensorflow/tensorflow_subset.pb.h"

namespace ebbtide::model::tensorflow {

namespace proto = ::ebbtide::tensorflow;

inline constexpr int kFloat = 1, kInt32 = 3, kBool = 10;

// The nodes of a graph or of a function: same words for both.
class Nodes {
 public:
  explicit Nodes(google::protobuf::RepeatedPtrField<proto::NodeDef>* nodes) : nodes_(nodes) {}

  Nodes& Node(const std::string& op, const std::string& name, const std::vector<std::string>& inputs = {});
  // Of the node before.
  Nodes& Text(const std::string& attribute, const std::string& value);
  Nodes& Flag(const std::string& attribute, bool value);
  Nodes& Type(const std::string& attribute, int type);
  Nodes& Sizes(const std::string& attribute, const Dims& values);
  Nodes& Shape(const std::string& attribute, const Dims& sizes);
  Nodes& Function(const std::string& attribute, const std::string& name);

  Nodes& Input(const std::string& name, const Dims& shape, int type = kFloat);
  Nodes& Weight(const std::string& name, const Dims& shape);  // a constant whose contents are left out
  Nodes& Integers(const std::string& name, const Dims& values);
  Nodes& Integer(const std::string& name, std::int64_t value);
  Nodes& Variable(const std::string& name, const Dims& shape);  // its handle

  proto::NodeDef& last() { return *nodes_->Mutable(nodes_->size() - 1); }

 private:
  proto::AttrValue& Add(const std::string& attribute);
  google::protobuf::RepeatedPtrField<proto::NodeDef>* nodes_;
};

struct GraphMaker {
  proto::GraphDef graph;

  Nodes nodes() { return Nodes(graph.mutable_node()); }
  // Results as "node:output_name:0".
  Nodes Function(const std::string& name, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& results);
  std::string Bytes() const { return graph.SerializeAsString(); }
  // As a SavedModel with one signature of these ports.
  std::string SavedModel(const std::string& input, const std::string& output) const;
};

// An image of 8x8 in three channels: a convolution, a bias, ReLU, pooling and a linear layer.
GraphMaker SmallClassifier();

ModelOptions BatchOf(std::int64_t batch);
// "no error" where there is none.
std::string ErrorOf(const std::string& bytes, const ModelOptions& options = {});
TrainingGraph Parse(const std::string& bytes, const ModelOptions& options);

}  // namespace ebbtide::model::tensorflow
