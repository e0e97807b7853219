// Scratch memory of kernels, with the arithmetic. The figures of reductions and of channels-last convolutions are those
// that torch 2.15 asked for on the phantom A100.
#include "estimate/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/workspace_rules.h"

namespace ebbtide::estimate {

bool operator==(const Scratch& a, const Scratch& b) {
  return a.after_results == b.after_results && a.bytes == b.bytes && a.until_results == b.until_results &&
         a.outlives == b.outlives;
}
void PrintTo(const Scratch& s, std::ostream* out) {
  *out << "{" << s.after_results << ", " << s.bytes << ", " << s.until_results << ", " << s.outlives << "}";
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
constexpr std::size_t kWholeOp = Scratch::kWholeOp;

// One op over float32 tensors of given shapes and strides.
class OneOp {
 public:
  explicit OneOp(const std::string& kind) { op_.kind = kind; }

  TensorId New(Dims shape, Dims stride, std::int64_t offset = 0) {
    const StorageId storage(graph_.storages.size());
    graph_.storages.push_back({});
    graph_.tensors.push_back({storage, DType::kFloat32, std::move(shape), std::move(stride), offset, ""});
    return TensorId(graph_.tensors.size() - 1);
  }
  OneOp& Reads(const std::string& name, Dims shape, Dims stride, std::int64_t offset = 0) {
    const TensorId id = New(std::move(shape), std::move(stride), offset);
    op_.inputs.push_back(id);
    op_.arguments.push_back({name, id});
    return *this;
  }
  OneOp& With(const std::string& name, Value value) {
    op_.arguments.push_back({name, std::move(value)});
    return *this;
  }
  OneOp& Makes(Dims shape) {
    op_.outputs.push_back(New(shape, Dims(shape.size(), 1)));
    return *this;
  }
  std::vector<Scratch> Ask(const std::string& gpu = "a100-80gb") const {
    return ScratchOf(graph_, op_, *FindProfile(gpu));
  }

 private:
  TrainingGraph graph_;
  Op op_;
};

TEST(ReductionScratch, ColumnsThatManyBlocksSum) {
  // 768 sums of 1024 values. A thread loads 4 neighbours, so a warp 128 of the columns, and 4 warps share a block:
  // 768 / 128 = 6 columns of blocks, 1024 / 4 = 256 values for each thread, which is where more blocks help. At least
  // 16 values stay with each: 256 / 16 = 16 blocks in a column. Each keeps 4 B for its 128 threads' places a result:
  // 4 x 768 x 16 x 128, and 4 B for each column.
  const auto scratch = OneOp("sum").Reads("self", {1024, 768}, {768, 1}).With("dim", Dims{0}).Makes({1, 768}).Ask();
  EXPECT_THAT(scratch, ElementsAre(Scratch{1, 6291456, 1, 1}, Scratch{1, 24, 1, 0}));
}

TEST(ReductionScratch, ChannelsOfAnImageWithChannelsLast) {
  // 384 sums of 8 x 14 x 14 = 1568 values: 96 groups of 4 make 3 columns; 1568 / 4 = 392 values for each thread, 25
  // blocks; 4 x 384 x 25 x 128.
  const auto scratch = OneOp("sum")
                           .Reads("self", {8, 384, 14, 14}, {384 * 196, 1, 384 * 14, 384})
                           .With("dim", Dims{0, 2, 3})
                           .Makes({1, 384, 1, 1})
                           .Ask();
  EXPECT_THAT(scratch, ElementsAre(Scratch{1, 4915200, 1, 1}, Scratch{1, 12, 1, 0}));
}

TEST(ReductionScratch, NothingWhereOneBlockIsEnough) {
  EXPECT_THAT(OneOp("sum").Reads("self", {255, 768}, {768, 1}).With("dim", Dims{0}).Makes({768}).Ask(), IsEmpty());
  EXPECT_THAT(OneOp("mean").Reads("self", {64, 1000}, {1000, 1}).With("dim", Dims{-1}).Makes({64}).Ask(), IsEmpty());
  EXPECT_THAT(OneOp("sum").Reads("self", {1, 5}, {5, 1}).With("dim", Dims{0}).Makes({5}).Ask(), IsEmpty());
}

TEST(ReductionScratch, ASumOfEverything) {
  // 2^24 values, 4 at a time, by 512 threads in one row: 32768 for each. An A100 runs 108 x 2048 / 512 = 432 blocks;
  // max(min(432, 32768 / 16), 32768 / 256) = 432 results of 4 B, and one counter.
  const auto scratch = OneOp("sum").Reads("self", {1 << 24}, {1}).Makes({}).Ask();
  EXPECT_THAT(scratch, ElementsAre(Scratch{1, 4 * 432, 1, 1}, Scratch{1, 4, 1, 0}));
}

TEST(LayerNormScratch, RowsThatAreNoRowsAreCopied) {
  const Dims shape{8, 56, 56, 96};
  const auto norm = [&](Dims stride) {
    return OneOp("native_layer_norm").Reads("input", shape, std::move(stride)).Makes(shape).Ask();
  };
  EXPECT_THAT(norm({56 * 56 * 96, 56 * 96, 96, 1}), IsEmpty());
  // Seen with channels last, but planar in memory: 8 x 56 x 56 x 96 x 4 B.
  EXPECT_THAT(norm({56 * 56 * 96, 56, 1, 56 * 56}), ElementsAre(Scratch{0, 9633792, kWholeOp, kWholeOp}));
}

TEST(ConvolutionScratch, AFilterIsCopiedInTheLayoutOfTheImage) {
  // 2x2, 96 to 192 channels: 192 x 96 x 4 x 4 B = 294912 B, beside what cuDNN takes.
  const auto convolution = [](Dims stride) {
    return OneOp("convolution")
        .Reads("input", {8, 96, 56, 56}, std::move(stride))
        .Reads("weight", {192, 96, 2, 2}, {384, 4, 2, 1})
        .With("stride", Dims{2, 2})
        .Makes({8, 192, 28, 28})
        .Ask();
  };
  const auto planar = convolution({96 * 3136, 3136, 56, 1}), channels_last = convolution({96 * 3136, 1, 56 * 96, 96});
  ASSERT_GE(channels_last.size(), 1U);
  EXPECT_EQ(channels_last.front(), (Scratch{1, 294912, kWholeOp, kWholeOp}));
  for (const Scratch& scratch : planar) EXPECT_NE(scratch.bytes, 294912);
}

TEST(ConvolutionScratch, DepthwiseRunsOnKernelsOfPytorch) {
  EXPECT_THAT(OneOp("convolution")
                  .Reads("input", {8, 96, 56, 56}, {96 * 3136, 3136, 56, 1})
                  .Reads("weight", {96, 1, 3, 3}, {9, 9, 3, 1})
                  .With("groups", std::int64_t{96})
                  .Makes({8, 96, 56, 56})
                  .Ask(),
              IsEmpty());
}

TEST(RecurrentScratch, SequencesAreTurnedAndTheWorkspaceOutlivesTheReserve) {
  // 20 sequences of 35 steps of 650: 20 x 35 x 650 x 4 B = 1820000 B to turn; (4 gates + 1) as much for the workspace.
  const auto run = [](bool batch_first) {
    return OneOp("_cudnn_rnn")
        .Reads("input", {20, 35, 650}, {22750, 650, 1})
        .Reads("hx", {2, batch_first ? 20 : 35, 650}, {22750, 650, 1})
        .With("batch_first", batch_first)
        .Makes({20, 35, 650})
        .Ask();
  };
  EXPECT_THAT(run(true), ElementsAre(Scratch{0, 1820000, kWholeOp, kWholeOp}, Scratch{3, 9100000, kWholeOp, kWholeOp}));
  EXPECT_THAT(run(false), ElementsAre(Scratch{3, 9100000, kWholeOp, kWholeOp}));
}

TEST(AttentionScratch, BackwardOfTheMemoryEfficientKernel) {
  // [32, 8, 128, 64]: the product of gradient and result 32 x 8 x 128 x 64 x 4 B; its row sums 131072 B, twice; then
  // for 256 heads two blocks of 64 queries, each 64 x 64 + 4 words: 256 x 2 x 4100 x 4 B.
  const Dims shape{32, 8, 128, 64}, stride{65536, 8192, 64, 1};
  OneOp op("_scaled_dot_product_efficient_attention_backward");
  for (const char* name : {"query", "key", "value"}) op.Reads(name, shape, stride).Makes(shape);
  EXPECT_THAT(op.Ask(), ElementsAre(Scratch{3, 8388608, 3, 2}, Scratch{3, 131072, 3, 1},
                                    Scratch{3, 131072, kWholeOp, kWholeOp}, Scratch{3, 8396800, kWholeOp, kWholeOp}));
}

TEST(AttentionScratch, DropoutInFlashAttentionHasASeedAndAnOffset) {
  const auto with = [](double dropout) {
    return OneOp("_scaled_dot_product_flash_attention").Makes({16, 12, 512, 64}).With("dropout_p", dropout).Ask();
  };
  EXPECT_THAT(with(0.1), ElementsAre(Scratch{1, 16, kWholeOp, kWholeOp}));
  EXPECT_THAT(with(0), IsEmpty());
}

TEST(AttentionScratch, BackwardOfFlashAttention) {
  // [16, 12, 512, 64]: row sums 16 x 12 x 512 x 4 B, and the query's gradient in float32.
  const Dims shape{16, 12, 512, 64}, stride{393216, 32768, 64, 1};
  OneOp op("_scaled_dot_product_flash_attention_backward");
  for (const char* name : {"query", "key", "value"}) op.Reads(name, shape, stride).Makes(shape);
  EXPECT_THAT(op.Ask(), ElementsAre(Scratch{3, 393216, kWholeOp, kWholeOp}, Scratch{3, 25165824, kWholeOp, kWholeOp}));
}

TEST(SoftmaxScratch, BackwardMultipliesFirst) {
  // [8, 12, 512, 512] of float32.
  EXPECT_THAT(OneOp("_softmax_backward_data").Makes({8, 12, 512, 512}).Ask(),
              ElementsAre(Scratch{1, 100663296, kWholeOp, kWholeOp}));
}

TEST(ScratchOf, TheGraphsOwnWorkspaceWhereThereIsNoRule) {
  TrainingGraph graph;
  Op op;
  op.kind = "something_else";
  op.workspace = 77;
  EXPECT_THAT(ScratchOf(graph, op, *FindProfile("a100-80gb")), ElementsAre(Scratch{0, 77, 0, 0}));
}

TEST(BlasScratchOf, ProductsWithABiasVectorRunOnCublasLt) {
  TrainingGraph graph;
  graph.storages.push_back({});
  graph.tensors.push_back({StorageId(0), DType::kFloat32, {8}, {1}, 0, "bias"});
  graph.tensors.push_back({StorageId(0), DType::kFloat32, {8, 8}, {8, 1}, 0, "matrix"});
  const auto scratch = [&](const std::string& kind, std::size_t self, const char* gpu) {
    Op op;
    op.kind = kind;
    op.arguments = {{"self", TensorId(self)}};
    return BlasScratchOf(graph, op, *FindProfile(gpu));
  };
  EXPECT_EQ(scratch("addmm", 0, "a100-80gb"), 1 << 20);
  EXPECT_EQ(scratch("addmm", 1, "a100-80gb"), 8519680);
  EXPECT_EQ(scratch("mm", 1, "h100-80gb"), 32 << 20);
  EXPECT_EQ(scratch("relu", 1, "a100-80gb"), 0);
}

TEST(EmbeddingBackwardScratch, ManyIndicesAreSortedAndSummedInParts) {
  const auto bytes_of = [](std::int64_t count) {
    Bytes sum = 0;
    for (const Scratch& scratch : OneOp("embedding_dense_backward")
                                      .Reads("grad_output", {count, 2048}, {2048, 1})
                                      .Reads("indices", {count}, {1})
                                      .Makes({5000, 2048})
                                      .Ask()) {
      sum += RoundUp(scratch.bytes, 512);
    }
    return sum;
  };
  EXPECT_EQ(bytes_of(3072), 0);
  // 16384 / 10 + 5000 parts of 2048 float32, three numbers for each index, two for each of 5000 segments, one for each
  // part, and two more: what torch 2.15 asks for on the phantom A100.
  EXPECT_EQ(bytes_of(16384), 6638 * 8192 + 3 * 131072 + 2 * 40448 + 53248 + 2 * 512);
}

// nf4 makes its table first and lets go of it when the weight is there; the weight goes behind the product.
TEST(StoredWeightScratch, IsMadeBeforeTheProduct) {
  TrainingGraph graph;
  graph.storages.resize(1);
  graph.tensors.push_back({StorageId(0), DType::kBFloat16, {4, 32}, {32, 1}, 0, ""});
  Op op;
  op.kind = "quantized_linear";
  op.outputs = {TensorId(0)};
  op.workspace = 2 * 32 * 64 + 128;
  op.arguments = {{"table_bytes", std::int64_t{128}}};
  EXPECT_THAT(ScratchOf(graph, op, *FindProfile("a100-80gb")),
              ElementsAre(Scratch{0, 128, 0, 1}, Scratch{0, 2 * 32 * 64, 1, 0}));
}

// One layer of 64 x 32 beside an adapter of rank 4, on 8 rows, in float32. The gradient of its input: the weight and
// its table, the product, a mask, the adapter's narrow product and its share, and that with the mask applied.
TEST(FusedLoraScratch, OfTheInputsGradient) {
  OneOp op("fused_lora_nf4_input_backward");
  op.Reads("b", {64, 4}, {4, 1}).Makes({8, 32});
  EXPECT_THAT(op.Ask(),
              ElementsAre(Scratch{0, 4 * 32 * 64, 1, 1}, Scratch{0, 4 * 32 * 64 / 64, 0, 0}, Scratch{1, 8 * 32, 1, 3},
                          Scratch{1, 4 * 8 * 4, 1, 1}, Scratch{1, 4 * 8 * 32, 1, 1}, Scratch{1, 4 * 8 * 32, 1, 0}));
}

}  // namespace
}  // namespace ebbtide::estimate
