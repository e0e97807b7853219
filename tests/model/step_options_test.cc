// Options that change what a step does, on a perceptron small enough to count its bytes.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/check.h"
#include "graph/summary.h"
#include "model/autocast_rules.h"
#include "model/model.h"

namespace ebbtide::model {
namespace {

ModelOptions SmallPerceptron() {
  ModelOptions options;
  options.batch_size = 2;
  options.widths = {3, 4, 5};
  options.device = Device::kCuda;
  return options;
}

TrainingGraph Built(const ModelOptions& options) {
  Result<TrainingGraph> graph = LoadModel("mlp", options);
  EXPECT_TRUE(graph) << graph.error().message;
  EXPECT_TRUE(Check(*graph));
  return *graph;
}

TEST(StepOptions, InferenceEndsWithTheOutputs) {
  ModelOptions options = SmallPerceptron();
  options.inference = true;
  const TrainingGraph graph = Built(options);
  EXPECT_TRUE(std::ranges::all_of(graph.ops, [](const Op& op) { return op.phase == Phase::kForward; }));
  EXPECT_EQ(Summarize(graph, 0).saved_bytes, 0);
  ASSERT_EQ(graph.outputs.size(), 1u);
  EXPECT_EQ(graph.tensor(graph.outputs[0]).shape, (Dims{2, 5}));
  EXPECT_TRUE(std::ranges::none_of(graph.storages, [](const Storage& storage) { return storage.name == "labels"; }));
}

// Saved: the input's copy 2*3*2, the hidden layer 2*4*2, the second weight's copy 5*4*2, all of two bytes an element;
// the log-probabilities 2*5*2 and, for the loss, 2*5*4 in float32; its total weight and the loss itself, which backward
// begins from, 4 each. The first weight's copy is not: no gradient goes to the input.
TEST(StepOptions, AutocastSavesLowPrecision) {
  ModelOptions options = SmallPerceptron();
  options.autocast = DType::kBFloat16;
  const TrainingGraph graph = Built(options);
  EXPECT_EQ(Summarize(graph, 0).saved_bytes, 2 * 3 * 2 + 2 * 4 * 2 + 5 * 4 * 2 + 2 * 5 * 2 + 2 * 5 * 4 + 4 + 4);
  for (const Storage& storage : graph.storages) {
    if (storage.kind != StorageKind::kGradient) continue;
    const auto tensor = std::ranges::find_if(
        graph.tensors, [&](const Tensor& t) { return &graph.storages[t.storage.index()] == &storage; });
    EXPECT_EQ(tensor->dtype, DType::kFloat32) << storage.name;
  }
}

TEST(StepOptions, CopiesOfParametersLiveUntilForwardEnds) {
  ModelOptions options = SmallPerceptron();
  options.autocast = DType::kBFloat16;
  const TrainingGraph graph = Built(options);
  const auto backward = std::ranges::find(graph.ops, Phase::kBackward, &Op::phase);
  const OpId last(static_cast<std::size_t>(backward - graph.ops.begin()) - 1);
  // Two biases and the first weight; the second weight is kept by backward, for longer.
  const auto held = std::ranges::count_if(graph.storages, [&](const Storage& storage) {
    return storage.kind == StorageKind::kTemporary && storage.released_after == last;
  });
  EXPECT_EQ(held, 3);
}

TEST(StepOptions, AutocastIsThatOfCuda) {
  ModelOptions options = SmallPerceptron();
  options.autocast = DType::kFloat16;
  options.device = Device::kCpu;
  const Result<TrainingGraph> graph = LoadModel("mlp", options);
  ASSERT_FALSE(graph);
  EXPECT_NE(graph.error().message.find("--device cuda"), std::string::npos);
}

TEST(StepOptions, PrecisionsAreTorchs) {
  EXPECT_EQ(PrecisionOf("linear"), Precision::kLow);
  EXPECT_EQ(PrecisionOf("layer_norm"), Precision::kFloat32);
  EXPECT_EQ(PrecisionOf("softmax"), Precision::kFloat32Result);
  EXPECT_EQ(PrecisionOf("add"), Precision::kUntouched);
}

}  // namespace
}  // namespace ebbtide::model
