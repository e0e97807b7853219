// Modelled times by hand, on a GPU of round figures.
#include "device/op_time.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/check.h"
#include "graph/shape.h"

namespace ebbtide {
namespace {

// 1 TFLOP/s, 100 GB/s: a FLOP takes 1e-3 ns, a byte 1e-2 ns.
DeviceProfile RoundGpu() {
  DeviceProfile profile;
  profile.multiprocessors = 10;
  profile.float32_flops = 1e12;
  profile.float16_flops = 8e12;
  profile.float64_flops = 5e11;
  profile.memory_bandwidth = 1e11;
  profile.launch_latency = 2000;
  return profile;
}

class Graph {
 public:
  TensorId Input(Dims shape, DType dtype = DType::kFloat32) {
    return New(StorageKind::kInput, std::move(shape), dtype);
  }
  TensorId Result(Dims shape, DType dtype = DType::kFloat32) {
    return New(StorageKind::kActivation, std::move(shape), dtype);
  }
  TensorId ViewOf(TensorId id, Dims shape) {
    graph.tensors.push_back({.storage = graph.tensor(id).storage,
                             .dtype = graph.tensor(id).dtype,
                             .shape = shape,
                             .stride = *ContiguousStride(shape),
                             .offset = 0,
                             .name = {}});
    return TensorId(graph.tensors.size() - 1);
  }
  Op& Add(std::string kind, std::vector<TensorId> inputs, std::vector<TensorId> outputs) {
    Op op;
    op.kind = std::move(kind);
    op.inputs = std::move(inputs);
    op.outputs = std::move(outputs);
    graph.ops.push_back(std::move(op));
    return graph.ops.back();
  }
  Nanos Time(const DeviceProfile& profile = RoundGpu()) const {
    EXPECT_TRUE(Check(graph)) << Check(graph).error().message;
    return ModelledTime(graph, graph.ops.back(), profile);
  }

  TrainingGraph graph;

 private:
  TensorId New(StorageKind kind, Dims shape, DType dtype) {
    graph.storages.push_back({*ElementCount(shape) * ItemSize(dtype), kind, "", OpId()});
    Dims stride = *ContiguousStride(shape);
    graph.tensors.push_back({.storage = StorageId(graph.storages.size() - 1),
                             .dtype = dtype,
                             .shape = std::move(shape),
                             .stride = std::move(stride),
                             .offset = 0,
                             .name = {}});
    return TensorId(graph.tensors.size() - 1);
  }
};

TEST(OpTime, ElementwiseIsBoundByItsBytes) {
  Graph g;
  g.Add("add", {g.Input({225000}), g.Input({225000})}, {g.Result({225000})});
  // 3 x 900,000 bytes at 90 GB/s: 30,000 ns, and the launch.
  EXPECT_EQ(g.Time(), 32000);
}

TEST(OpTime, InPlaceReadsAndWritesTheSameBytes) {
  Graph g;
  const TensorId x = g.Input({225000});
  g.Add("relu_", {x}, {g.ViewOf(x, {225000})}).mutated = {x};
  // 2 x 900,000 bytes at 90 GB/s.
  EXPECT_EQ(g.Time(), 22000);

  Graph filled;
  const TensorId y = filled.Input({225000});
  filled.Add("fill_", {y}, {}).mutated = {y};
  // What is overwritten is not read.
  EXPECT_EQ(filled.Time(), 12000);
}

TEST(OpTime, ViewsAndAllocationsAreFree) {
  Graph g;
  const TensorId x = g.Input({1000000});
  g.Add("view", {x}, {g.ViewOf(x, {1000, 1000})});
  EXPECT_TRUE(IsView(g.graph, g.graph.ops[0]));
  EXPECT_EQ(g.Time(), 0);
  g.Add("empty", {}, {g.Result({1000000})});
  EXPECT_EQ(g.Time(), 0);
}

TEST(OpTime, NormalizationReadsItsInputTwice) {
  Graph g;
  g.Add("native_layer_norm", {g.Input({250000})}, {g.Result({250000})});
  // (2 + 1) x 1,000,000 bytes at 75 GB/s.
  EXPECT_EQ(g.Time(), 42000);
}

TEST(OpTime, ALookupReadsWhatItWrites) {
  Graph g;
  g.Add("embedding", {g.Input({1000000, 10}), g.Input({1250}, DType::kInt64)}, {g.Result({1250, 10})});
  // 50,000 bytes of the table, 10,000 of indices, 50,000 written, at 50 GB/s.
  EXPECT_EQ(g.Time(), 2000 + 110'000 / 50);
}

TEST(OpTime, AProductFillsTheGpuInRounds) {
  // 1280 x 128 is 10 tiles of 128 x 128 for 10 multiprocessors: none is idle. One row more makes 11 tiles, two rounds
  // for 20 places.
  const auto time = [](std::int64_t rows) {
    Graph g;
    g.Add("mm", {g.Input({rows, 1000}), g.Input({1000, 128})}, {g.Result({rows, 128})}).flops = 2 * rows * 1000 * 128;
    return g.Time();
  };
  EXPECT_EQ(time(1280), 2000 + std::llround(2 * 1280 * 1000 * 128 / 0.82e3));
  EXPECT_EQ(time(1281), 2000 + std::llround(2 * 1281.0 * 1000 * 128 / 0.82e3 * 20 / 11));
}

TEST(OpTime, TypesHaveTheirOwnPeaks) {
  const auto time = [](DType dtype, const DeviceProfile& profile) {
    Graph g;
    g.Add("mm", {g.Input({1280, 1000}, dtype), g.Input({1000, 128}, dtype)}, {g.Result({1280, 128}, dtype)}).flops =
        100'000'000;
    return g.Time(profile) - profile.launch_latency;
  };
  DeviceProfile profile = RoundGpu();
  EXPECT_EQ(time(DType::kFloat32, profile), std::llround(1e8 / 0.82e3));
  EXPECT_EQ(time(DType::kFloat64, profile), std::llround(1e8 / 0.41e3));
  // 1e8 FLOPs at 8 x 0.6 TFLOP/s would be 20,833 ns; 2 (1280 + 128 + 0.164 x 1000) x 1000 bytes at 80 GB/s are more.
  EXPECT_EQ(time(DType::kFloat16, profile), std::llround((1280 * 1000 + 1000 * 128 + 1280 * 128) * 2 / 80.0));
  // No tensor cores for bfloat16: as float32.
  EXPECT_EQ(time(DType::kBFloat16, profile), std::llround(1e8 / 0.82e3));
  // PyTorch leaves float32 products as they are.
  profile.tf32_flops = 8e12;
  EXPECT_EQ(time(DType::kFloat32, profile), std::llround(1e8 / 0.82e3));
}

Op& AddConvolution(Graph& g, std::int64_t kernel, std::int64_t stride, std::int64_t channels) {
  const TensorId input = g.Input({10, channels, 16, 16});
  const TensorId weight = g.Input({128, channels, kernel, kernel});
  const std::int64_t side = 16 / stride;
  const TensorId output = g.Result({10, 128, side, side});
  Op& op = g.Add("convolution", {input, weight}, {output});
  op.flops = 2 * 10 * side * side * 128 * channels * kernel * kernel;
  op.arguments = {{"input", input}, {"weight", weight}, {"stride", Dims{stride, stride}}, {"groups", std::int64_t{1}}};
  return op;
}

TEST(OpTime, ConvolutionsOfThreeByThreeUseWinograd) {
  // 10 x 16 x 16 positions and 128 channels: 20 tiles, two full rounds.
  Graph direct;
  const double flops = 2.0 * 2560 * 128 * 64;
  AddConvolution(direct, 1, 1, 64);
  EXPECT_EQ(direct.Time(), 2000 + std::llround(flops / 0.75e3));

  // Fused: 9 flops / 2.25 at 0.44. Tiled: 9 flops / 4 at 0.82, and 5.5 times input and output at 80 GB/s.
  Graph winograd;
  AddConvolution(winograd, 3, 1, 64);
  const double fused = 9 * flops / 2.25 / 0.44e3;
  const double tiled = 9 * flops / 4 / 0.82e3 + 5.5 * 4 * 2560 * (64 + 128) / 80.0;
  EXPECT_EQ(winograd.Time(), 2000 + std::llround(std::min(fused, tiled)));

  // With TF32, tensor cores take its place: 9 flops at 0.45 of 8 TFLOP/s.
  DeviceProfile profile = RoundGpu();
  profile.tf32_flops = 8e12;
  EXPECT_EQ(winograd.Time(profile), 2000 + std::llround(9 * flops / (0.45 * 8e3)));

  // A stride of two rules it out: a quarter of the positions, 5 tiles for 10 multiprocessors.
  Graph strided;
  AddConvolution(strided, 3, 2, 64);
  EXPECT_EQ(strided.Time(), 2000 + std::llround(9 * flops / 4 / (0.75e3 * 0.5)));
}

TEST(OpTime, GraphsThatBringTimesKeepThem) {
  Graph g;
  const TensorId y = g.Result({100});
  g.Add("add", {g.Input({100})}, {y}).time = 77;
  g.Add("neg", {y}, {g.Result({100})});
  EXPECT_EQ(OpTimes(g.graph, RoundGpu()), (std::vector<Nanos>{77, 0}));
  EXPECT_EQ(OpTime(g.graph, g.graph.ops[0], RoundGpu()), 77);
  g.graph.ops[0].time = 0;
  // 800 bytes at 90 GB/s: 9 ns.
  EXPECT_EQ(OpTimes(g.graph, RoundGpu()), (std::vector<Nanos>{2009, 2009}));
}

TEST(OpTime, FamiliesAreFoundInPlaceToo) {
  EXPECT_EQ(FamilyOf("copy_"), OpFamily::kCopy);
  EXPECT_EQ(FamilyOf("cudnn_convolution"), OpFamily::kConvolution);
  EXPECT_EQ(FamilyOf("never_heard_of"), OpFamily::kElementwise);
  for (std::size_t i = 0; i < static_cast<std::size_t>(OpFamily::kFamilies); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(EfficiencyOf(static_cast<OpFamily>(i)).family), i);
  }
}

}  // namespace
}  // namespace ebbtide
