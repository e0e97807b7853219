// What steers code stands in fields of the graph; files of before these fields say the same in `meta`.
#include "graph/head.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/check.h"
#include "graph/hash.h"
#include "graph/json.h"

namespace ebbtide {
namespace {

// A file with one op that reads x and yields y; `head` stands before its storages.
std::string File(const std::string& head, const std::string& schema) {
  return fmt::format(R"({{"format": "ebbtide.graph", "version": 1, {}
    "storages": [{{"kind": "input", "bytes": 4, "name": "x"}}, {{"kind": "activation", "bytes": 4}}],
    "tensors": [{{"storage": 0, "dtype": "float32", "shape": [1]}}, {{"storage": 1, "dtype": "float32", "shape": [1]}}],
    "ops": [{{"kind": "relu", "inputs": [0], "outputs": [1], "schema": "{}"}}]}})",
                     head, schema);
}

TrainingGraph Read(const std::string& head, const std::string& schema = "aten::relu.default") {
  auto graph = ParseGraph(File(head, schema), "step.json");
  EXPECT_TRUE(graph) << graph.error().message;
  return graph.value_or(TrainingGraph());
}

TEST(GraphHead, OldFilesSayItInMeta) {
  EXPECT_EQ(Read("").framework, Framework::kNone);
  EXPECT_EQ(Read(R"("meta": {"framework": "torch 2.15.0"},)").framework, Framework::kPytorch);
  EXPECT_EQ(Read(R"("meta": {"framework": "mxnet"},)", "mxnet::relu").framework, Framework::kMxnet);
  EXPECT_EQ(Read(R"("meta": {"framework": "tensorflow"},)", "tensorflow::Relu").framework, Framework::kTensorflow);
  EXPECT_FALSE(Read("").loss_in_model);
  EXPECT_TRUE(Read(R"("meta": {"loss": "model"},)").loss_in_model);
  EXPECT_FALSE(Read(R"("meta": {"optimizer": "adam"},)").makes_state_early);
  EXPECT_TRUE(Read(R"("meta": {"optimizer": "adagrad"},)").makes_state_early);
}

// MXNet's runtime is not for ops of others, whatever meta says.
TEST(GraphHead, AFrameworkOfOldFilesNeedsItsOperators) {
  EXPECT_EQ(Read(R"("meta": {"framework": "mxnet"},)").framework, Framework::kPytorch);
}

TEST(GraphHead, FieldsGoBeforeMeta) {
  const TrainingGraph graph = Read(
      R"("framework": "none", "loss_in_model": false, "makes_state_early": true,
         "meta": {"framework": "pytorch", "loss": "model", "optimizer": "sgd"},)");
  EXPECT_EQ(graph.framework, Framework::kNone);
  EXPECT_FALSE(graph.loss_in_model);
  EXPECT_TRUE(graph.makes_state_early);
  EXPECT_EQ(ParseGraph(ToJson(graph), "again"), graph);
}

// So programs of before the fields read our files, and a file that is read and written stays as it was.
TEST(GraphHead, WhatMetaSaysIsNotWrittenTwice) {
  const TrainingGraph graph = Read(R"("meta": {"framework": "pytorch", "loss": "model"},)");
  EXPECT_EQ(ToJson(graph).find("loss_in_model"), std::string::npos);
  EXPECT_EQ(ParseGraph(ToJson(graph), "again"), graph);
}

TEST(GraphHead, OperatorsOfOthersAreRefused) {
  const auto graph = ParseGraph(File(R"("framework": "mxnet",)", "aten::relu.default"), "step.json");
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().message,
            "step.json: framework: expected mxnet's operators alone (\"schema\" of every op), found others");
}

TEST(GraphHead, PlansGoWithFilesOfBeforeTheFields) {
  const TrainingGraph old = Read(R"("meta": {"framework": "pytorch"},)");
  EXPECT_EQ(GraphHash(old), GraphHash(Read(R"("framework": "pytorch", "loss_in_model": true,)")));
}

TEST(GraphHead, MeasuredStepsAreTakenByteByByte) {
  EXPECT_EQ(AlignmentOf(Framework::kNone), 1);
  EXPECT_EQ(AlignmentOf(Framework::kTensorflow), 512);
}

}  // namespace
}  // namespace ebbtide
