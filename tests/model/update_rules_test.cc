// The optimizers' memory: what an update holds per parameter, and what it changes.
#include "model/update_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/check.h"
#include "graph/liveness.h"
#include "model/nn.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TrainingGraph Perceptron(const std::string& optimizer, Device device) {
  ModelOptions options;
  options.batch_size = 2;
  options.widths = {32, 64, 64, 8};
  options.optimizer = optimizer;
  options.device = device;
  Result<TrainingGraph> graph = zoo::Build(*zoo::FindMember("mlp"), options);
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  Status status = Check(*graph);
  EXPECT_TRUE(status.has_value()) << status.error().message;
  return *graph;
}

Bytes TotalBytes(const TrainingGraph& graph, StorageKind kind) {
  Bytes bytes = 0;
  for (const Storage& storage : graph.storages) bytes += storage.kind == kind ? storage.bytes : 0;
  return bytes;
}

// The most that lives during any op of the update, without the batch and the loss.
Bytes UpdatePeak(const TrainingGraph& graph) {
  const std::vector<Bytes> live = LiveBytes(graph, ComputeLiveness(graph));
  Bytes peak = 0;
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (graph.ops[i].phase == Phase::kUpdate) peak = std::max(peak, live[i]);
  }
  return peak - TotalBytes(graph, StorageKind::kInput) - graph.storage_of(graph.outputs[0]).bytes;
}

// 32 x 64 + 64, 64 x 64 + 64, 64 x 8 + 8
constexpr Bytes kParameters = 2112 + 4160 + 520;

struct PerParameter {
  const char* optimizer;
  Bytes cuda;   // bytes per parameter at the peak of the update
  Bytes state;  // of these, what outlives the step
};

class MultiTensorUpdate : public ::testing::TestWithParam<PerParameter> {};

TEST_P(MultiTensorUpdate, HoldsThatManyBytesPerParameter) {
  const TrainingGraph graph = Perceptron(GetParam().optimizer, Device::kCuda);
  EXPECT_EQ(TotalBytes(graph, StorageKind::kParameter), 4 * kParameters);
  EXPECT_EQ(TotalBytes(graph, StorageKind::kGradient), 4 * kParameters);
  EXPECT_EQ(TotalBytes(graph, StorageKind::kOptimizerState), GetParam().state * kParameters);
  EXPECT_EQ(UpdatePeak(graph), GetParam().cuda * kParameters);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, MultiTensorUpdate,
                         ::testing::Values(PerParameter{"sgd", 8, 0},        // parameter, gradient
                                           PerParameter{"momentum", 12, 4},  // + momentum
                                           PerParameter{"rmsprop", 16, 4},   // + squares, their root
                                           PerParameter{"adam", 20, 8},      // + two moments, the denominator
                                           PerParameter{"adamw", 20, 8},
                                           PerParameter{"adagrad", 20, 4}),  // + squares, their root, scaled gradient
                         [](const auto& info) { return std::string(info.param.optimizer); });

// On the CPU parameters are updated one by one, and temporaries are those of the largest, 64 x 64.
TEST(SingleTensorUpdate, HoldsTemporariesOfOneParameterAtATime) {
  constexpr Bytes kLargest = 64 * 64 * 4;
  EXPECT_EQ(UpdatePeak(Perceptron("sgd", Device::kCpu)), 8 * kParameters);
  EXPECT_EQ(UpdatePeak(Perceptron("rmsprop", Device::kCpu)), 12 * kParameters + kLargest);
  EXPECT_EQ(UpdatePeak(Perceptron("adam", Device::kCpu)), 16 * kParameters + 2 * kLargest);  // root, and root over bias
}

// Rows and columns in place of the whole: 64 x 32 needs 64 + 32 numbers, a bias its own size.
TEST(SingleTensorUpdate, AdafactorKeepsRowsAndColumns) {
  constexpr Bytes kState = (64 + 32 + 64) + (64 + 64 + 64) + (8 + 64 + 8);
  for (Device device : {Device::kCpu, Device::kCuda}) {
    const TrainingGraph graph = Perceptron("adafactor", device);
    EXPECT_EQ(TotalBytes(graph, StorageKind::kOptimizerState), 4 * kState);
    EXPECT_GE(UpdatePeak(graph), 8 * kParameters + 4 * kState + 64 * 64 * 4);
    EXPECT_LE(UpdatePeak(graph), 8 * kParameters + 4 * kState + 64 * 64 * 4 + 4 * (64 + 64));
  }
}

TEST(UpdateRules, OneCallServesAllParametersOnCuda) {
  const auto updates = [](const TrainingGraph& graph) {
    return std::ranges::count(graph.ops, Phase::kUpdate, &Op::phase);
  };
  EXPECT_EQ(updates(Perceptron("sgd", Device::kCuda)), 1);
  EXPECT_EQ(updates(Perceptron("sgd", Device::kCpu)), 6);  // three weights, three biases
  EXPECT_EQ(updates(Perceptron("none", Device::kCuda)), 0);
}

TEST(UpdateRules, EveryParameterIsChanged) {
  for (const std::string& optimizer : OptimizerNames()) {
    for (Device device : {Device::kCpu, Device::kCuda}) {
      const TrainingGraph graph = Perceptron(optimizer, device);
      std::vector<bool> changed(graph.storages.size());
      for (const Op& op : graph.ops) {
        if (op.phase != Phase::kUpdate) continue;
        for (TensorId id : op.mutated) changed[graph.tensor(id).storage.index()] = true;
      }
      for (std::size_t i = 0; i < graph.storages.size(); ++i) {
        const StorageKind kind = graph.storages[i].kind;
        if (kind == StorageKind::kParameter || kind == StorageKind::kOptimizerState) {
          EXPECT_TRUE(changed[i]) << optimizer << ": " << graph.storages[i].name;
        }
      }
    }
  }
}

TEST(UpdateRules, NamesAreThoseOfTheCommandLine) {
  EXPECT_THAT(OptimizerNames(), ElementsAre("sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad", "adafactor",
                                            "adamw-fused", "adamw-8bit", "adamw-paged", "lion", "muon", "galore"));
}

TEST(UpdateRules, UnknownOptimizersAreNamed) {
  ModelOptions options;
  options.optimizer = "adma";
  Result<TrainingGraph> graph = zoo::Build(*zoo::FindMember("mlp"), options);
  ASSERT_FALSE(graph.has_value());
  EXPECT_THAT(graph.error().message, HasSubstr("\"adma\": expected one of sgd, momentum"));
}

}  // namespace
}  // namespace ebbtide::model
