// A rank's step is a valid graph, and holds what its layout says: with the arithmetic of a small perceptron.
#include "parallel/rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "graph/check.h"
#include "graph/collective.h"
#include "graph/liveness.h"
#include "model/model.h"
#include "parallel/pp.h"
#include "parallel/rewriter.h"
#include "parallel/units.h"

namespace ebbtide::parallel {
namespace {

using testing::HasSubstr;

TrainingGraph Load(const std::string& name, std::int64_t batch, const std::string& optimizer = "adamw",
                   std::int64_t batches = 1) {
  model::ModelOptions options;
  options.batch_size = batch;
  options.accumulate = batches;
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

std::size_t Count(const TrainingGraph& graph, std::string_view kind) {
  return static_cast<std::size_t>(std::ranges::count_if(graph.ops, [&](const Op& op) { return op.kind == kind; }));
}

// Of three batches each gathers its units in forward and, but for what lies in no block, in backward.
TEST(RankGraph, BatchesThatAddUpGatherEachAndReduceOnceOrEach) {
  const TrainingGraph graph = Load("gpt2", 1, "adamw", 3);
  const std::size_t units = FindUnits(graph).units.size();
  for (const DataParallel data : {DataParallel::kFsdp1, DataParallel::kFsdp2}) {
    for (const bool each : {false, true}) {
      Layout layout = Of(data, 4);
      layout.reduces_each_batch = each;
      const auto rank = RankGraph(graph, layout);
      ASSERT_TRUE(rank) << rank.error().message;
      const Status valid = Check(*rank);
      ASSERT_TRUE(valid) << Describe(layout) << ": " << valid.error().message;
      EXPECT_EQ(Count(*rank, "all_gather_into_tensor"), 3 * (units + units - 1));
      EXPECT_EQ(Count(*rank, "reduce_scatter_tensor"), each ? 3 * units : units);
      EXPECT_EQ(BytesOf(*rank, StorageKind::kGradient), BytesOf(*rank, StorageKind::kParameter));
    }
  }
}

// Gradients that wait whole take more than reduced ones: by three quarters of them, less what is single at a time.
TEST(RankGraph, GradientsOfSeveralBatchesWaitWholeUnlessEachIsReduced) {
  const TrainingGraph one = Load("gpt2", 1), two = Load("gpt2", 1, "adamw", 2);
  const auto peak = [](const TrainingGraph& graph, const Layout& layout) {
    const TrainingGraph rank = *RankGraph(graph, layout);
    return PeakLiveBytes(rank, ComputeLiveness(rank)).bytes;
  };
  const Bytes gradients = BytesOf(one, StorageKind::kGradient);
  for (const DataParallel data : {DataParallel::kFsdp1, DataParallel::kFsdp2}) {
    Layout layout = Of(data, 4);
    const Bytes alone = peak(one, layout), whole = peak(two, layout);
    layout.reduces_each_batch = true;
    const Bytes reduced = peak(two, layout);
    EXPECT_GT(whole, alone + gradients / 2);
    EXPECT_LT(reduced, alone + gradients / 2);
  }
}

TEST(RankGraph, ZeroReducesSumsInStageOneAndEveryBatchFromStageTwoOn) {
  const TrainingGraph graph = Load("mlp", 4, "adamw", 3);
  for (const auto& [data, copies] :
       {std::pair(DataParallel::kZero1, 6), {DataParallel::kZero2, 18}}) {  // gradients into the bucket, of six
    const TrainingGraph rank = *RankGraph(graph, Of(data, 4));
    ASSERT_TRUE(Check(rank)) << Check(rank).error().message;
    EXPECT_EQ(Count(rank, "copy_"), copies);
    EXPECT_EQ(BytesOf(rank, StorageKind::kGradient), data == DataParallel::kZero1 ? kParameters : kParameters / 4);
  }
  const TrainingGraph third = *RankGraph(graph, Of(DataParallel::kZero3, 4));
  ASSERT_TRUE(Check(third)) << Check(third).error().message;
  EXPECT_EQ(BytesOf(third, StorageKind::kGradient), kParameters / 4);
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
  EXPECT_THAT(RankGraph(graph, layout).error().message, HasSubstr("--tp: expected a model whose matrices"));
  layout.tp = 3;
  EXPECT_THAT(RankGraph(graph, layout).error().message, HasSubstr("multiple"));
  EXPECT_THAT(RankGraph(graph, Of(DataParallel::kNone, 4)).error().message, HasSubstr("--ddp"));
  EXPECT_THAT(RankGraph(graph, Of(DataParallel::kDdp, 1)).error().message, HasSubstr("--gpus"));
  layout.tp = 1;
  layout.pp = 2;
  layout.data = DataParallel::kZero2;
  EXPECT_THAT(RankGraph(Load("gpt2", 1), layout).error().message, HasSubstr("--pp: expected --ddp or --fsdp"));
  layout.gpus = 64;
  layout.pp = 64;
  layout.data = DataParallel::kNone;
  EXPECT_THAT(RankGraph(Load("gpt2", 1), layout).error().message,
              HasSubstr("as many stages as the model has blocks, 12"));
  layout.pp = 1;
  layout.reduces_each_batch = true;
  layout.data = DataParallel::kFsdp2;
  EXPECT_THAT(RankGraph(graph, layout).error().message, HasSubstr("expected --accumulate"));
  layout.data = DataParallel::kDdp;
  EXPECT_THAT(RankGraph(Load("mlp", 4, "sgd", 2), layout).error().message, HasSubstr("expected --fsdp"));
  layout.microbatches = 4;
  EXPECT_THAT(RankGraph(graph, layout).error().message, HasSubstr("--microbatches: expected --pp"));
}

Layout Stages(std::int64_t pp, std::int64_t stage, std::int64_t microbatches, std::int64_t chunks = 1) {
  Layout layout;
  layout.gpus = layout.pp = pp;
  layout.stage = stage;
  layout.microbatches = microbatches;
  layout.chunks = chunks;
  return layout;
}

// The first of four stages has four microbatches under way, the last one.
TEST(PipelineOrder, IsOneForwardOneBackward) {
  const auto text = [](const Layout& layout) {
    std::string out;
    for (const PipelineAction& action : PipelineOrder(layout)) {
      out += (action.forward ? "F" : "B") + std::to_string(action.microbatch) + " ";
    }
    return out;
  };
  EXPECT_EQ(text(Stages(2, 0, 4)), "F0 F1 B0 F2 B1 F3 B2 B3 ");
  EXPECT_EQ(text(Stages(2, 1, 4)), "F0 B0 F1 B1 F2 B2 F3 B3 ");
  EXPECT_EQ(text(Stages(4, 0, 2)), "F0 F1 B0 B1 ");
}

TEST(PipelineOrder, TakesEveryMicrobatchThroughEveryChunkOnceEachWay) {
  for (const std::int64_t pp : {2, 4}) {
    for (const std::int64_t chunks : {1, 2, 3}) {
      for (const std::int64_t microbatches : {pp, 2 * pp, 4 * pp}) {
        for (std::int64_t stage = 0; stage < pp; ++stage) {
          std::map<std::tuple<std::int64_t, std::int64_t>, int> state;  // by chunk and microbatch: 1 forward, 2 both
          for (const PipelineAction& action : PipelineOrder(Stages(pp, stage, microbatches, chunks))) {
            int& seen = state[{action.chunk, action.microbatch}];
            EXPECT_EQ(seen, action.forward ? 0 : 1);
            ++seen;
          }
          EXPECT_EQ(state.size(), static_cast<std::size_t>(chunks * microbatches));
          for (const auto& [key, seen] : state) EXPECT_EQ(seen, 2);
        }
      }
    }
  }
}

// Stages together hold the model once, and each passes its parameters' gradients on to its own optimizer.
TEST(RankGraph, StagesDivideTheModel) {
  const TrainingGraph graph = Load("resnet18", 1);
  for (const std::int64_t chunks : {1, 2}) {
    Bytes parameters = 0, state = 0, buffers = 0;
    for (std::int64_t stage = 0; stage < 2; ++stage) {
      const auto rank = RankGraph(graph, Stages(2, stage, 4, chunks));
      ASSERT_TRUE(rank) << rank.error().message;
      const Status valid = Check(*rank);
      ASSERT_TRUE(valid) << "stage " << stage << ": " << valid.error().message;
      EXPECT_GT(Moved(*rank), 0);
      EXPECT_EQ(BytesOf(*rank, StorageKind::kParameter), BytesOf(*rank, StorageKind::kGradient));
      parameters += BytesOf(*rank, StorageKind::kParameter);
      state += BytesOf(*rank, StorageKind::kOptimizerState);
      buffers += BytesOf(*rank, StorageKind::kBuffer);
    }
    EXPECT_EQ(parameters, BytesOf(graph, StorageKind::kParameter));
    EXPECT_EQ(state, BytesOf(graph, StorageKind::kOptimizerState));
    EXPECT_EQ(buffers, BytesOf(graph, StorageKind::kBuffer));
  }
  EXPECT_THAT(RankGraph(Load("gpt2", 1), Stages(2, 0, 2)).error().message, HasSubstr("tied"));
}

// A stage's units are gathered once for all microbatches, and its gradients are reduced behind the last.
TEST(RankGraph, AStageOfShardsGathersAndReducesOnce) {
  const TrainingGraph graph = Load("resnet18", 1);
  for (std::int64_t stage = 0; stage < 2; ++stage) {
    Layout layout = Stages(2, stage, 4);
    const TrainingGraph whole = *RankGraph(graph, layout);
    layout.gpus = 4;
    layout.data = DataParallel::kFsdp2;
    const auto rank = RankGraph(graph, layout);
    ASSERT_TRUE(rank) << rank.error().message;
    const Status valid = Check(*rank);
    ASSERT_TRUE(valid) << valid.error().message;
    const auto places = [&](std::string_view kind) {
      std::vector<std::size_t> out;
      for (std::size_t i = 0; i < rank->ops.size(); ++i) {
        if (rank->ops[i].kind == kind) out.push_back(i);
      }
      return out;
    };
    const std::size_t units = FindUnits(whole).units.size();
    EXPECT_EQ(places("all_gather_into_tensor").size(), units);
    ASSERT_EQ(places("reduce_scatter_tensor").size(), units);
    EXPECT_GT(places("reduce_scatter_tensor").front(), places(stage == 0 ? "convolution_backward" : "recv").back());
    EXPECT_NEAR(static_cast<double>(BytesOf(*rank, StorageKind::kParameter)),
                static_cast<double>(BytesOf(whole, StorageKind::kParameter)) / 2, 8192);
  }
}

// Of microbatches under way the first of two stages has one more than the second, and with three it has no more than
// with two. The last stage keeps of each what it received (128 channels of 28 x 28) and what the model returned.
TEST(RankGraph, AStageHoldsAsManyMicrobatchesAsAreBehindIt) {
  const TrainingGraph graph = Load("resnet18", 8, "sgd");
  const auto peak = [&](std::int64_t stages, std::int64_t stage, std::int64_t microbatches) {
    const TrainingGraph rank = *RankGraph(graph, Stages(stages, stage, microbatches));
    return PeakLiveBytes(rank, ComputeLiveness(rank)).bytes - BytesOf(rank, StorageKind::kInput);
  };
  EXPECT_GT(peak(2, 0, 2), peak(2, 0, 1));
  EXPECT_EQ(peak(2, 0, 4), peak(2, 0, 3));
  EXPECT_EQ(peak(2, 1, 4), peak(2, 1, 3) + 8 * (128 * 28 * 28 + 1000) * 4);
}

// The rank's part of the sequence is what the graph is of: attention alone has more. 4 ranks gather the keys and values
// of all, in each direction once.
TEST(RankGraph, RanksThatShareASequenceGatherKeysAndValues) {
  model::ModelOptions options;
  options.batch_size = 2;
  options.optimizer = "adamw";
  options.device = model::Device::kCuda;
  options.seq_len = 128;
  const TrainingGraph graph = *model::LoadModel("gpt2", options);
  Layout layout = Of(DataParallel::kDdp, 4);
  const TrainingGraph alone = *RankGraph(graph, layout);
  layout.cp = 4;
  const TrainingGraph rank = *RankGraph(graph, layout);
  EXPECT_TRUE(Check(rank)) << Check(rank).error().message;
  const auto gathers = [](const TrainingGraph& of) {
    return std::ranges::count_if(of.ops, [](const Op& op) { return op.kind == "all_gather_into_tensor"; });
  };
  EXPECT_EQ(gathers(alone), 0);
  EXPECT_EQ(gathers(rank), 2 * 12);  // layers
  // Each gathers three parts of keys and values, and hands their gradients on four times, in float32.
  const Bytes part = 2 * 2 * 128 * 768 * 4;
  EXPECT_EQ(Moved(rank) - Moved(alone), 12 * (2 * 3 * part + 4 * part));
  EXPECT_EQ(BytesOf(rank, StorageKind::kParameter), BytesOf(graph, StorageKind::kParameter));
  EXPECT_THAT(RankGraph(Load("resnet18", 2), layout).error().message, HasSubstr("scaled_dot_product_attention"));
}

// One flat tensor of a unit has one gradient, which goes through frozen blocks.
TEST(RankGraph, UnitsOfTheFirstFsdpBesideFrozenBlocksAreTrainedOrFrozenAsAWhole) {
  TrainingGraph graph = Load("gpt2", 2);
  const auto freeze = [&](std::string_view part) {
    int count = 0;
    for (Storage& storage : graph.storages) {
      if (storage.kind != StorageKind::kGradient || storage.name.find(part) == std::string::npos) continue;
      storage.kind = StorageKind::kTemporary;
      storage.name.clear();
      ++count;
    }
    return count;
  };
  EXPECT_EQ(freeze("wpe."), 1);
  EXPECT_TRUE(RankGraph(graph, Of(DataParallel::kFsdp1, 2)));
  EXPECT_EQ(freeze("h.0."), 12);
  EXPECT_THAT(RankGraph(graph, Of(DataParallel::kFsdp1, 2)).error().message, HasSubstr("are frozen"));
}

TEST(Units, AreTheModulesOfLists) {
  EXPECT_EQ(BlockOf("model.layers.0.mlp.up_proj.weight"), "model.layers.0");
  EXPECT_EQ(BlockOf("layer1.0.conv1"), "layer1.0");
  EXPECT_EQ(BlockOf("lm_head.weight"), "");
  EXPECT_EQ(BlockOf("h.11."), "h.11");
}

}  // namespace
}  // namespace ebbtide::parallel
