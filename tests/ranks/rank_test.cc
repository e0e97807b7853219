// A rank's step is a valid graph, and holds what its layout says: with the arithmetic of a small perceptron.
#include "parallel/rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/check.h"
#include "graph/liveness.h"
#include "model/model.h"
#include "parallel/rewriter.h"
#include "parallel/units.h"

namespace ebbtide::parallel {
namespace {

using testing::HasSubstr;

TrainingGraph Load(const std::string& name, std::int64_t batch, const std::string& optimizer = "adamw") {
  model::ModelOptions options;
  options.batch_size = batch;
  options.optimizer = optimizer;
  options.device = model::Device::kCuda;
  if (name == "mlp") options.widths = {64, 128, 128, 32};
  auto graph = model::LoadModel(name, options);
  EXPECT_TRUE(graph) << graph.error().message;
  return *std::move(graph);
}

Bytes BytesOf(const TrainingGraph& graph, StorageKind kind) {
  Bytes sum = 0;
  for (const Storage& storage : graph.storages) sum += storage.kind == kind ? storage.bytes : 0;
  return sum;
}

Bytes Moved(const TrainingGraph& graph) {
  Bytes sum = 0;
  for (const Op& op : graph.ops) sum += MovedBytes(op);
  return sum;
}

Layout Of(DataParallel data, std::int64_t gpus) {
  Layout layout;
  layout.gpus = gpus;
  layout.data = data;
  return layout;
}

constexpr DataParallel kAll[] = {DataParallel::kDdp,   DataParallel::kFsdp1, DataParallel::kFsdp2,
                                 DataParallel::kZero1, DataParallel::kZero2, DataParallel::kZero3};

TEST(RankGraph, OfAnyLayoutIsValid) {
  for (const char* name : {"mlp", "resnet18", "gpt2"}) {
    for (const char* optimizer : {"sgd", "adamw"}) {
      const TrainingGraph graph = Load(name, 2, optimizer);
      for (const DataParallel data : kAll) {
        for (const std::int64_t gpus : {2, 3, 8}) {
          const auto rank = RankGraph(graph, Of(data, gpus));
          ASSERT_TRUE(rank) << rank.error().message;
          const Status valid = Check(*rank);
          EXPECT_TRUE(valid) << name << ", " << Describe(Of(data, gpus)) << ": " << valid.error().message;
          EXPECT_GT(Moved(*rank), 0) << name << ", " << Describe(Of(data, gpus));
        }
      }
    }
  }
}

// Weights 64 x 128 + 128 x 128 + 128 x 32 and biases 128 + 128 + 32: 28,672 + 288 floats.
constexpr Bytes kParameters = (28'672 + 288) * 4;

TEST(RankGraph, DdpHasASecondCopyOfGradientsInBuckets) {
  const TrainingGraph graph = Load("mlp", 4);
  ASSERT_EQ(BytesOf(graph, StorageKind::kParameter), kParameters);
  const TrainingGraph rank = *RankGraph(graph, Of(DataParallel::kDdp, 4));
  EXPECT_EQ(BytesOf(rank, StorageKind::kParameter), kParameters);
  EXPECT_EQ(BytesOf(rank, StorageKind::kGradient), kParameters);
  EXPECT_EQ(BytesOf(rank, StorageKind::kBuffer) - BytesOf(graph, StorageKind::kBuffer), kParameters);
  EXPECT_EQ(Moved(rank), 2 * kParameters * 3 / 4);  // a ring passes three quarters twice
  Layout views = Of(DataParallel::kDdp, 4);
  views.gradients_are_views = true;
  EXPECT_EQ(BytesOf(*RankGraph(graph, views), StorageKind::kBuffer), BytesOf(graph, StorageKind::kBuffer));
}

TEST(RankGraph, FsdpHoldsAQuarterOfEverything) {
  const TrainingGraph graph = Load("mlp", 4);
  for (const DataParallel data : {DataParallel::kFsdp1, DataParallel::kFsdp2}) {
    const TrainingGraph rank = *RankGraph(graph, Of(data, 4));
    EXPECT_EQ(BytesOf(rank, StorageKind::kParameter), kParameters / 4);
    EXPECT_EQ(BytesOf(rank, StorageKind::kGradient), kParameters / 4);
    EXPECT_EQ(BytesOf(rank, StorageKind::kOptimizerState), BytesOf(graph, StorageKind::kOptimizerState) / 4);
  }
}

TEST(RankGraph, ShardsArePaddedToTheLargest) {
  const TrainingGraph graph = Load("mlp", 4);
  // Of 128 rows among 3 ranks the first has 43, of 32 it has 11, of biases likewise.
  const Bytes expected = (43 * 64 + 43 * 128 + 11 * 128 + 43 + 43 + 11) * 4;
  EXPECT_EQ(BytesOf(*RankGraph(graph, Of(DataParallel::kFsdp2, 3)), StorageKind::kParameter), expected);
}

TEST(RankGraph, ZeroDividesWhatItsStageSays) {
  const TrainingGraph graph = Load("mlp", 4);
  const Bytes part = kParameters / 4;
  const TrainingGraph first = *RankGraph(graph, Of(DataParallel::kZero1, 4));
  EXPECT_EQ(BytesOf(first, StorageKind::kParameter), kParameters);
  EXPECT_EQ(BytesOf(first, StorageKind::kGradient), kParameters);
  EXPECT_EQ(BytesOf(first, StorageKind::kOptimizerState), 3 * part);  // a copy of the parameters, and Adam's two
  const TrainingGraph second = *RankGraph(graph, Of(DataParallel::kZero2, 4));
  EXPECT_EQ(BytesOf(second, StorageKind::kParameter), kParameters);
  EXPECT_EQ(BytesOf(second, StorageKind::kGradient), part);
  const TrainingGraph third = *RankGraph(graph, Of(DataParallel::kZero3, 4));
  EXPECT_EQ(BytesOf(third, StorageKind::kParameter), part);
  EXPECT_EQ(BytesOf(third, StorageKind::kGradient), part);
}

// What backward reads of a unit is gathered anew, so nothing of it lives in between.
TEST(RankGraph, AUnitIsNotHeldBetweenForwardAndBackward) {
  const TrainingGraph graph = Load("gpt2", 1, "sgd");
  Layout kept = Of(DataParallel::kFsdp2, 8);
  kept.reshard_after_forward = false;
  const auto peak = [](const TrainingGraph& rank) { return PeakLiveBytes(rank, ComputeLiveness(rank)).bytes; };
  const TrainingGraph resharded = *RankGraph(graph, Of(DataParallel::kFsdp2, 8));
  const TrainingGraph whole = *RankGraph(graph, kept);
  ASSERT_TRUE(Check(whole));
  Bytes blocks = 0;
  for (const Unit& unit : FindUnits(graph).units) {
    for (const StorageId storage : unit.parameters) blocks += unit.name.empty() ? 0 : graph.storage(storage).bytes;
  }
  EXPECT_GT(peak(whole) - peak(resharded), blocks / 2);
}

TEST(RankGraph, WhatIsNotModelledIsRefused) {
  const TrainingGraph graph = Load("mlp", 4);
  Layout layout = Of(DataParallel::kFsdp2, 4);
  layout.tp = 2;
  EXPECT_THAT(RankGraph(graph, layout).error().message, HasSubstr("--tp"));
  layout.tp = 3;
  EXPECT_THAT(RankGraph(graph, layout).error().message, HasSubstr("multiple"));
  EXPECT_THAT(RankGraph(graph, Of(DataParallel::kNone, 4)).error().message, HasSubstr("--ddp"));
  EXPECT_THAT(RankGraph(graph, Of(DataParallel::kDdp, 1)).error().message, HasSubstr("--gpus"));
}

TEST(Units, AreTheModulesOfLists) {
  EXPECT_EQ(BlockOf("model.layers.0.mlp.up_proj.weight"), "model.layers.0");
  EXPECT_EQ(BlockOf("layer1.0.conv1"), "layer1.0");
  EXPECT_EQ(BlockOf("lm_head.weight"), "");
  EXPECT_EQ(BlockOf("h.11."), "h.11");
}

}  // namespace
}  // namespace ebbtide::parallel
