// Frozen parameters, adapters, several batches per update and recomputed blocks, small enough to count their bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/check.h"
#include "graph/summary.h"
#include "model/backward.h"
#include "model/nn.h"
#include "model/patterns.h"

namespace ebbtide::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Layers "0" (3 to 4) and "2" (4 to 5) of two samples, momentum.
ModelOptions SmallPerceptron() {
  ModelOptions options;
  options.batch_size = 2;
  options.widths = {3, 4, 5};
  options.optimizer = "momentum";
  return options;
}

TrainingGraph Built(const ModelOptions& options, const std::string& model = "mlp") {
  Result<TrainingGraph> graph = LoadModel(model, options);
  EXPECT_TRUE(graph) << graph.error().message;
  EXPECT_TRUE(Check(*graph));
  return *graph;
}

std::string Complaint(const ModelOptions& options, const std::string& model = "mlp") {
  const Result<TrainingGraph> graph = LoadModel(model, options);
  EXPECT_FALSE(graph);
  return graph ? "" : graph.error().message;
}

Bytes BytesOf(const TrainingGraph& graph, StorageKind kind) {
  return Summarize(graph, 0).bytes_by_kind[static_cast<std::size_t>(kind)];
}

std::vector<std::string> Kinds(const TrainingGraph& graph, Phase phase) {
  std::vector<std::string> kinds;
  for (const Op& op : graph.ops) {
    if (op.phase == phase) kinds.push_back(op.kind);
  }
  return kinds;
}

TEST(Patterns, MatchAPathOrAModuleOfIt) {
  EXPECT_EQ(MatchedPart("layer1", "layer1.0.conv1.weight"), "layer1");
  EXPECT_EQ(MatchedPart("layer?.0", "layer1.0.conv1.weight"), "layer1.0");
  EXPECT_EQ(MatchedPart("*.weight", "layer1.0.conv1.weight"), "layer1.0.conv1.weight");
  EXPECT_EQ(MatchedPart("layer[23]*", "layer1.0.conv1.weight"), "");
  EXPECT_EQ(MatchedPart("layer", "layer1.0.conv1.weight"), "");
}

TEST(Freeze, LeavesNeitherGradientNorStateNorWhatOnlyTheyNeed) {
  ModelOptions options = SmallPerceptron();
  options.freeze = {"0"};
  const TrainingGraph graph = Built(options);
  EXPECT_EQ(Summarize(graph, 0).parameters, 4 * 3 + 4 + 5 * 4 + 5);
  EXPECT_EQ(BytesOf(graph, StorageKind::kGradient), (5 * 4 + 5) * 4);
  EXPECT_EQ(BytesOf(graph, StorageKind::kOptimizerState), (5 * 4 + 5) * 4);
  // Of the second layer's product, the weight's gradient alone; nothing goes on to the ReLU.
  const std::vector<std::string> backward = Kinds(graph, Phase::kBackward);
  EXPECT_EQ(std::ranges::count(backward, "mm"), 1);
  EXPECT_EQ(std::ranges::count(backward, "threshold_backward"), 0);
  // ReLU's result 2*4, log-probabilities 2*5, their total weight and the loss.
  EXPECT_EQ(Summarize(graph, 0).saved_bytes, (2 * 4 + 2 * 5 + 1 + 1) * 4);
}

TEST(Freeze, OfTheLastLayerStillLetsGradientsThrough) {
  ModelOptions options = SmallPerceptron();
  options.freeze = {"2.*"};
  const TrainingGraph graph = Built(options);
  EXPECT_EQ(BytesOf(graph, StorageKind::kGradient), (4 * 3 + 4) * 4);
  const std::vector<std::string> backward = Kinds(graph, Phase::kBackward);
  EXPECT_EQ(std::ranges::count(backward, "mm"), 2);  // to the ReLU, and the first weight's
}

TEST(Freeze, OfWhatIsNotThereNamesWhatIs) {
  ModelOptions options = SmallPerceptron();
  options.freeze = {"0.wieght"};
  EXPECT_THAT(Complaint(options), HasSubstr("--freeze 0.wieght: matches no parameter of 0.weight, 0.bias, 2.weight, "
                                            "2.bias; did you mean 0.weight"));
  options.freeze = {"*"};
  EXPECT_THAT(Complaint(options), HasSubstr("no parameter is left to train"));
}

TEST(Lora, TrainsTwoThinMatricesBesideAFrozenLayer) {
  ModelOptions options = SmallPerceptron();
  options.lora = 2;
  options.lora_targets = {"2"};
  const TrainingGraph graph = Built(options);
  const std::int64_t adapter = 2 * 4 + 5 * 2;
  EXPECT_EQ(Summarize(graph, 0).parameters, 4 * 3 + 4 + 5 * 4 + 5 + adapter);
  EXPECT_EQ(BytesOf(graph, StorageKind::kGradient), adapter * 4);
  EXPECT_EQ(BytesOf(graph, StorageKind::kOptimizerState), adapter * 4);
  // B's gradient, what goes on to A's result, A's gradient: three products, none through the frozen weights.
  EXPECT_EQ(std::ranges::count(Kinds(graph, Phase::kBackward), "mm"), 3);
}

TEST(Lora, HasPeftsLayersByDefault) {
  ModelOptions options;
  options.batch_size = 1;
  options.seq_len = 8;
  options.lora = 4;
  options.optimizer = "none";
  // Twelve layers, query and value of 768 to 768.
  EXPECT_EQ(BytesOf(Built(options, "bert-base"), StorageKind::kGradient), 12 * 2 * (4 * 768 + 768 * 4) * 4);
  // Twelve layers of one product to query, key and value at once.
  EXPECT_EQ(BytesOf(Built(options, "gpt2"), StorageKind::kGradient), 12 * (4 * 768 + 3 * 768 * 4) * 4);
}

TEST(Lora, AsksForLayersWherePeftDoes) {
  ModelOptions options = SmallPerceptron();
  options.lora = 2;
  EXPECT_THAT(Complaint(options), HasSubstr("expected --lora-targets, of 0, 2"));
  options.lora_targets = {"4"};
  EXPECT_THAT(Complaint(options), HasSubstr("--lora-targets 4: matches no linear layer of 0, 2"));
}

TEST(Accumulate, AddsLaterGradientsToTheFirst) {
  ModelOptions options = SmallPerceptron();
  const TrainingGraph once = Built(options);
  options.accumulate = 3;
  const TrainingGraph graph = Built(options);
  EXPECT_EQ(BytesOf(graph, StorageKind::kParameter), BytesOf(once, StorageKind::kParameter));
  EXPECT_EQ(BytesOf(graph, StorageKind::kInput), BytesOf(once, StorageKind::kInput));
  EXPECT_EQ(BytesOf(graph, StorageKind::kGradient), BytesOf(once, StorageKind::kGradient));
  EXPECT_EQ(std::ranges::count(Kinds(graph, Phase::kBackward), "add_"), 2 * 4);  // two passes, four parameters
  const Summary summary = Summarize(graph, 0), of_once = Summarize(once, 0);
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
    const auto i = static_cast<std::size_t>(phase);
    EXPECT_EQ(summary.flops_by_phase[i], 3 * of_once.flops_by_phase[i]);
  }
  EXPECT_EQ(Kinds(graph, Phase::kUpdate), Kinds(once, Phase::kUpdate));
}

class CheckpointTest : public ::testing::Test {
 protected:
  static ModelOptions Options() {
    ModelOptions options;
    options.checkpoint = "block";
    return options;
  }

  // mm, then in the block mm, relu, mm.
  void Record() {
    TensorId x = b.Input("x", {8, 4});
    TensorId w1 = b.Parameter("w1", {4, 4}), w2 = b.Parameter("w2", {4, 4}), w3 = b.Parameter("w3", {4, 4});
    TensorId out = op::Mm(b, x, w1);
    {
      auto layer = b.Enter("block");
      out = op::Mm(b, op::Relu(b, op::Mm(b, out, w2)), w3);
    }
    TensorId loss = op::Mean(b, out, {}, false);
    forward = b.graph().ops.size();
    AssignStorageKinds(b, RecordBackward(b, loss));
    b.graph().outputs = {loss};
    Status status = Check(b.graph());
    ASSERT_TRUE(status.has_value()) << status.error().message;
  }

  Builder b{"test", Options()};
  std::size_t forward = 0;
};

TEST_F(CheckpointTest, KeepsWhatWentInAndRunsAgainUpToTheLastSavedTensor) {
  Record();
  std::vector<std::string> kinds = Kinds(b.graph(), Phase::kBackward);
  // The mean's three ops read nothing of the block. Its last product saves its operands alone, so it is not run again.
  EXPECT_THAT(kinds, ElementsAre("ones_like", "expand", "div", "mm", "relu", "t", "mm", "t", "mm", "threshold_backward",
                                 "t", "mm", "t", "mm", "t", "mm"));
  EXPECT_TRUE(b.IsRecomputation(OpId(forward + 3)) && b.IsRecomputation(OpId(forward + 4)));
  EXPECT_FALSE(b.IsRecomputation(OpId(forward + 5)));
  EXPECT_EQ(b.graph().ops[forward + 3].flops, 2 * 8 * 4 * 4);
  // The block's input, and the loss.
  EXPECT_EQ(Summarize(b.graph(), 0).saved_bytes, 8 * 4 * 4 + 4);
}

TEST_F(CheckpointTest, WhatIsMadeAgainAndReadIsAnActivation) {
  Record();
  const TrainingGraph& graph = b.graph();
  const auto kind_made_by = [&](std::size_t op) { return graph.storage_of(graph.ops[op].outputs[0]).kind; };
  EXPECT_EQ(kind_made_by(forward + 3), StorageKind::kTemporary);   // read by the ReLU alone
  EXPECT_EQ(kind_made_by(forward + 4), StorageKind::kActivation);  // the ReLU's result
  EXPECT_EQ(kind_made_by(2), StorageKind::kTemporary);             // the same in forward
}

// transformers asks for a gradient of the words' embeddings, which is then there until the loss goes.
TEST(Checkpoint, OfALanguageModelWithFrozenWordsKeepsTheirGradient) {
  ModelOptions options;
  options.batch_size = 2;
  options.seq_len = 8;
  options.lora = 4;
  options.checkpoint = "";
  const TrainingGraph graph = Built(options, "distilgpt2");
  const OpId last(graph.ops.size() - 1);
  const auto is_kept = [&](const Storage& storage) {
    return storage.kind != StorageKind::kGradient && storage.released_after == last && storage.bytes == 2 * 8 * 768 * 4;
  };
  EXPECT_EQ(std::ranges::count_if(graph.storages, is_kept), 2);
  // Else the first block has nothing to pass on.
  options.checkpoint = "transformer.h.*";
  EXPECT_LT(Summarize(Built(options, "distilgpt2"), 0).flops_by_phase[1], Summarize(graph, 0).flops_by_phase[1]);
}

TEST(Checkpoint, OfAModelWithoutBlocksAsksForAPattern) {
  ModelOptions options = SmallPerceptron();
  options.checkpoint = "";
  EXPECT_THAT(Complaint(options), HasSubstr("no repeated blocks; expected --checkpoint=PATTERN, of 0, 2"));
  options.checkpoint = "7";
  EXPECT_THAT(Complaint(options), HasSubstr("--checkpoint 7: matches no layer of 0, 2"));
}

}  // namespace
}  // namespace ebbtide::model
