// TensorFlow graphs from bytes to training steps: gradients, buffers that are written over, functions, loops, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/liveness.h"
#include "graph/summary.h"
#include "tests/model/tensorflow/graph_maker.h"

namespace ebbtide::model::tensorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> OperatorsOf(const TrainingGraph& graph) {
  std::vector<std::string> names;
  for (const Op& op : graph.ops) names.push_back(op.schema.substr(std::string("tensorflow::").size()));
  return names;
}

const Op& Find(const TrainingGraph& graph, const std::string& name) {
  const auto found = std::find_if(graph.ops.begin(), graph.ops.end(),
                                  [&](const Op& op) { return op.schema == "tensorflow::" + name; });
  EXPECT_NE(found, graph.ops.end()) << name;
  return *found;
}

StorageId StorageOf(const TrainingGraph& graph, const std::string& name) {
  return graph.tensor(Find(graph, name).outputs[0]).storage;
}

TEST(TensorflowReadTest, AFrozenGraphTrains) {
  const TrainingGraph graph = Parse(SmallClassifier().Bytes(), BatchOf(2));
  EXPECT_EQ(Summarize(graph).parameters, 3 * 3 * 3 * 4 + 4 + 64 * 5);
  EXPECT_THAT(OperatorsOf(graph),
              ElementsAre("Conv2D", "BiasAdd", "Relu", "MaxPool", "Reshape", "MatMul",
                          "SparseSoftmaxCrossEntropyWithLogits", "Mean", "Mul", "MatMul", "MatMul", "Reshape",
                          "ResourceApplyGradientDescent", "MaxPoolGrad", "ReluGrad", "BiasAddGrad",
                          "Conv2DBackpropFilter", "ResourceApplyGradientDescent", "ResourceApplyGradientDescent"));
  // 2 images of 8x8 in 4 channels.
  EXPECT_EQ(graph.storage(StorageOf(graph, "Conv2D")).bytes, 2 * 8 * 8 * 4 * 4);
  // 2 for a multiplication and an addition, at each result, over 3x3 places of 3 channels.
  EXPECT_EQ(Find(graph, "Conv2D").flops, 2 * (2 * 8 * 8 * 4) * (3 * 3 * 3));
}

TEST(TensorflowReadTest, KernelsWriteOverWhatNobodyNeeds) {
  const TrainingGraph graph = Parse(SmallClassifier().Bytes(), BatchOf(2));
  EXPECT_EQ(StorageOf(graph, "Conv2D"), StorageOf(graph, "BiasAdd"));
  EXPECT_EQ(StorageOf(graph, "Conv2D"), StorageOf(graph, "Relu"));
  EXPECT_EQ(StorageOf(graph, "MaxPool"), StorageOf(graph, "Reshape"));
  // The gradient of the ReLU writes over that of the pooling, not over the activation that it also reads.
  EXPECT_EQ(StorageOf(graph, "MaxPoolGrad"), StorageOf(graph, "ReluGrad"));
  EXPECT_NE(StorageOf(graph, "Relu"), StorageOf(graph, "ReluGrad"));
  EXPECT_EQ(graph.storage(StorageOf(graph, "Relu")).kind, StorageKind::kActivation);
}

TEST(TensorflowReadTest, WhatAnotherReadsIsNotWrittenOver) {
  GraphMaker maker;
  maker.nodes().Input("x", {-1, 4}).Node("Exp", "e", {"x"}).Node("Neg", "n", {"e"}).Node("Mul", "y", {"e", "n"});
  ModelOptions options = BatchOf(3);
  options.inference = true;
  const TrainingGraph graph = Parse(maker.Bytes(), options);
  EXPECT_NE(StorageOf(graph, "Exp"), StorageOf(graph, "Neg"));
  // By then nobody else does.
  EXPECT_EQ(StorageOf(graph, "Exp"), StorageOf(graph, "Mul"));
}

TEST(TensorflowReadTest, InferenceEndsWithTheResult) {
  ModelOptions options = BatchOf(4);
  options.inference = true;
  const TrainingGraph graph = Parse(SmallClassifier().Bytes(), options);
  EXPECT_EQ(OperatorsOf(graph).back(), "MatMul");
  ASSERT_EQ(graph.outputs.size(), 1u);
  EXPECT_THAT(graph.tensor(graph.outputs[0]).shape, ElementsAre(4, 5));
}

TEST(TensorflowReadTest, OptimizersHaveTheirState) {
  const std::pair<const char*, int> cases[] = {
      {"sgd", 0}, {"momentum", 1}, {"adam", 2}, {"rmsprop", 1}, {"adagrad", 1}};
  for (const auto& [optimizer, states] : cases) {
    ModelOptions options = BatchOf(2);
    options.optimizer = optimizer;
    Bytes state = 0;
    for (const Storage& storage : Parse(SmallClassifier().Bytes(), options).storages)
      state += storage.kind == StorageKind::kOptimizerState ? storage.bytes : 0;
    EXPECT_EQ(state, states * (3 * 3 * 3 * 4 + 4 + 64 * 5) * 4) << optimizer;
  }
}

// y = f(f(x)), f(a) = tanh(a) of a function that is called by its name in an attribute.
TEST(TensorflowReadTest, FunctionsAreWrittenOut) {
  GraphMaker maker;
  maker.Function("f", {"a"}, {"t:y:0"}).Node("Tanh", "t", {"a"});
  maker.Function("g", {"a"}, {"second:output:0"})
      .Node("PartitionedCall", "first", {"a"})
      .Function("f", "f")
      .Node("PartitionedCall", "second", {"first:output:0"})
      .Function("f", "f");
  maker.nodes()
      .Input("x", {-1, 4})
      .Node("StatefulPartitionedCall", "call", {"x"})
      .Function("f", "g")
      .Node("Identity", "y", {"call"});
  ModelOptions options = BatchOf(2);
  options.inference = true;
  EXPECT_THAT(OperatorsOf(Parse(maker.Bytes(), options)), ElementsAre("Tanh", "Tanh"));
  EXPECT_THAT(OperatorsOf(Parse(maker.SavedModel("x:0", "call:0"), options)), ElementsAre("Tanh", "Tanh"));
}

// i = 0; while i < 3: i = i + 1, v = tanh(v), list.push(v); then the list is stacked.
GraphMaker Loop() {
  GraphMaker maker;
  maker.Function("goes_on", {"i", "v", "l"}, {"less:z:0"})
      .Integer("three", 3)
      .Node("Less", "less", {"i", "three:output:0"});
  maker.Function("body", {"i", "v", "l"}, {"next:z:0", "t:y:0", "push:output_handle:0"})
      .Integer("one", 1)
      .Node("AddV2", "next", {"i", "one:output:0"})
      .Node("Tanh", "t", {"v"})
      .Node("TensorListPushBack", "push", {"l", "t:y:0"});
  maker.nodes()
      .Input("x", {-1, 4})
      .Integer("zero", 0)
      .Integers("shape", {-1, 4})
      .Node("EmptyTensorList", "list", {"shape", "zero"})
      .Node("While", "loop", {"zero", "x", "list"})
      .Function("cond", "goes_on")
      .Function("body", "body")
      .Node("TensorListStack", "all", {"loop:2", "shape"});
  return maker;
}

TEST(TensorflowReadTest, LoopsAreWrittenOut) {
  ModelOptions options = BatchOf(2);
  options.inference = true;
  const TrainingGraph graph = Parse(Loop().Bytes(), options);
  EXPECT_THAT(OperatorsOf(graph), ElementsAre("Tanh", "Tanh", "Tanh", "TensorListStack"));
  EXPECT_THAT(graph.tensor(graph.ops[3].outputs[0]).shape, ElementsAre(3, 2, 4));
  EXPECT_EQ(graph.ops[3].inputs.size(), 3u);
}

TEST(TensorflowReadTest, ALoopWithoutAnEndIsRefused) {
  GraphMaker maker = Loop();
  // i < i + 1: its number of iterations follows, and is none.
  maker.graph.mutable_library()->mutable_function(1)->mutable_ret(0)->set_value("i");
  EXPECT_THAT(ErrorOf(maker.Bytes()), HasSubstr("expected at most 400000 nodes"));
}

TEST(TensorflowReadTest, AGraphThatUpdatesIsTakenAsItIs) {
  GraphMaker maker;
  maker.nodes()
      .Input("x", {-1, 4})
      .Variable("w", {4, 3})
      .Node("ReadVariableOp", "read", {"w"})
      .Node("MatMul", "product", {"x", "read"})
      .Node("Relu", "y", {"product"})
      .Node("ReluGrad", "g", {"y", "y"})
      .Node("MatMul", "gw", {"x", "g"})
      .Flag("transpose_a", true)
      .Node("ResourceApplyGradientDescent", "update", {"w", "rate", "gw"})
      .Weight("rate", {})
      .Node("Identity", "result", {"y"});
  const TrainingGraph graph = Parse(maker.Bytes(), BatchOf(2));
  EXPECT_THAT(OperatorsOf(graph), ElementsAre("MatMul", "Relu", "ReluGrad", "MatMul", "ResourceApplyGradientDescent"));
  EXPECT_EQ(graph.ops[1].phase, Phase::kForward);
  EXPECT_EQ(graph.ops[2].phase, Phase::kBackward);
  EXPECT_EQ(graph.ops[4].phase, Phase::kUpdate);
  EXPECT_EQ(Summarize(graph).parameters, 12);
  EXPECT_FALSE(graph.meta.contains("optimizer"));
}

TEST(TensorflowReadTest, SizesThatTheFileFixes) {
  ModelOptions options;
  options.image_size = 16;
  EXPECT_THAT(ErrorOf(SmallClassifier().Bytes(), options), HasSubstr("--image-size 16: the file has 8 there"));
}

TEST(TensorflowReadTest, FlagsThatAreNotModelled) {
  ModelOptions options;
  options.accumulate = 2;
  EXPECT_EQ(ErrorOf(SmallClassifier().Bytes(), options), "test.pb: --accumulate: not modelled for TensorFlow");
  options = {};
  options.optimizer = "lamb";
  EXPECT_THAT(ErrorOf(SmallClassifier().Bytes(), options), HasSubstr("--optimizer: expected one that is modelled"));
}

TEST(TensorflowReadTest, AnUnknownOperator) {
  GraphMaker maker = SmallClassifier();
  maker.graph.mutable_node(7)->set_op("Frobnicate");
  EXPECT_EQ(
      ErrorOf(maker.Bytes()),
      "test.pb: node \"relu\" (Frobnicate): an operator that is not known; --assume-elementwise goes on as if it kept "
      "the shape of its input");
  ModelOptions options = BatchOf(2);
  options.assume_elementwise = true;
  options.inference = true;
  EXPECT_EQ(Parse(maker.Bytes(), options).ops[2].kind, "assumed_elementwise");
}

}  // namespace
}  // namespace ebbtide::model::tensorflow
