// Language models: transformers' own parameter counts, and the bytes and FLOPs of single blocks worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/check.h"
#include "graph/summary.h"
#include "model/update_rules.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::zoo {
namespace {

using ::testing::HasSubstr;

Result<TrainingGraph> TryBuild(const std::string& name, std::int64_t batch, std::int64_t length, Device device,
                               const std::string& optimizer = "none") {
  ModelOptions options;
  options.batch_size = batch;
  options.seq_len = length;
  options.device = device;
  options.optimizer = optimizer;
  const Member* member = FindMember(name);
  if (!member) return Fail("no model {}", name);
  return Build(*member, options);
}

TrainingGraph BuildModel(const std::string& name, std::int64_t batch, std::int64_t length, Device device = Device::kCpu,
                         const std::string& optimizer = "none") {
  auto graph = TryBuild(name, batch, length, device, optimizer);
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  return graph ? *graph : TrainingGraph{};
}

// Bytes made by forward ops of a layer (and its parts) that backward reads.
Bytes SavedIn(const TrainingGraph& graph, const std::string& layer) {
  std::vector<bool> saved = SavedForBackward(graph), seen(graph.storages.size());
  Bytes bytes = 0;
  for (const Op& op : graph.ops) {
    if (op.phase != Phase::kForward) continue;
    bool inside = op.layer == layer || op.layer.starts_with(layer + ".");
    for (TensorId id : op.outputs) {
      std::size_t storage = graph.tensor(id).storage.index();
      if (inside && saved[storage] && !seen[storage]) bytes += graph.storages[storage].bytes;
      seen[storage] = true;
    }
  }
  return bytes;
}

std::vector<const Op*> OpsOf(const TrainingGraph& graph, const std::string& kind, Phase phase = Phase::kForward) {
  std::vector<const Op*> ops;
  for (const Op& op : graph.ops) {
    if (op.kind == kind && op.phase == phase) ops.push_back(&op);
  }
  return ops;
}

bool HasParameter(const TrainingGraph& graph, const std::string& name) {
  return std::ranges::any_of(graph.storages,
                             [&](const Storage& s) { return s.kind == StorageKind::kParameter && s.name == name; });
}

struct Count {
  const char* name;
  std::int64_t parameters;
};
constexpr Count kCounts[] = {
    {"bert-base", 109'514'298},      {"bert-large", 335'174'458},
    {"gpt2", 124'439'808},           {"gpt2-medium", 354'823'168},
    {"gpt2-large", 774'030'080},     {"gpt2-xl", 1'557'611'200},
    {"distilgpt2", 81'912'576},      {"cerebras-gpt-111m", 111'050'496},
    {"gpt-neo-125m", 125'198'592},   {"opt-125m", 125'239'296},
    {"opt-350m", 331'196'416},       {"t5-small", 60'506'624},
    {"t5-base", 222'903'552},        {"llama-3.2-1b", 1'235'814'400},
    {"llama-3.2-3b", 3'212'749'824}, {"deepseek-r1-distill-qwen-1.5b", 1'777'088'000},
    {"qwen3-4b", 4'022'468'096},     {"gemma-2-2b", 2'614'341'888},
};

class EveryLanguageModel : public ::testing::TestWithParam<Count> {};
INSTANTIATE_TEST_SUITE_P(LanguageModels, EveryLanguageModel, ::testing::ValuesIn(kCounts), [](const auto& info) {
  std::string name = info.param.name;
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

TEST_P(EveryLanguageModel, HasTransformersParametersWhateverTheInput) {
  EXPECT_EQ(Summarize(BuildModel(GetParam().name, 1, 8)).parameters, GetParam().parameters);
  EXPECT_EQ(Summarize(BuildModel(GetParam().name, 5, 3)).parameters, GetParam().parameters);
}

TEST_P(EveryLanguageModel, IsAValidGraphOnBothDevices) {
  for (Device device : {Device::kCpu, Device::kCuda}) {
    for (std::int64_t length : {1, 7, 64}) {
      Status status = Check(BuildModel(GetParam().name, 2, length, device, "adamw"));
      EXPECT_TRUE(status.has_value()) << status.error().message;
    }
  }
}

// From two sequences on, every one more costs the same. (One alone needs no copies to line its heads up.)
TEST_P(EveryLanguageModel, SavesAsMuchForEverySequence) {
  for (Device device : {Device::kCpu, Device::kCuda}) {
    auto saved = [&](std::int64_t batch) {
      return Summarize(BuildModel(GetParam().name, batch, 16, device)).saved_bytes;
    };
    EXPECT_EQ(saved(4) - saved(3), saved(3) - saved(2));
    EXPECT_GT(saved(3), saved(2));
  }
}

TEST(LanguageModels, TakeEveryOptimizer) {
  for (const char* name : {"distilgpt2", "t5-small", "bert-base", "opt-350m", "gpt-neo-125m", "gemma-2-2b"}) {
    for (const std::string& optimizer : OptimizerNames()) {
      for (Device device : {Device::kCpu, Device::kCuda}) {
        Status status = Check(BuildModel(name, 2, 8, device, optimizer));
        EXPECT_TRUE(status.has_value()) << name << " " << optimizer << ": " << status.error().message;
      }
    }
  }
}

TEST(LanguageModels, RefuseMorePositionsThanTheyKnow) {
  struct Limit {
    const char* name;
    std::int64_t positions;
  };
  for (auto [name, positions] : {Limit{"bert-base", 512}, Limit{"gpt2", 1024}, Limit{"cerebras-gpt-111m", 2048},
                                 Limit{"gpt-neo-125m", 2048}, Limit{"opt-125m", 2048}}) {
    EXPECT_TRUE(TryBuild(name, 1, positions, Device::kCpu)) << name;
    auto graph = TryBuild(name, 1, positions + 1, Device::kCpu);
    ASSERT_FALSE(graph) << name;
    EXPECT_EQ(graph.error().message,
              fmt::format("{}: --seq-len {}: expected at most {}, the positions that the model knows", name,
                          positions + 1, positions));
  }
  EXPECT_TRUE(TryBuild("llama-3.2-1b", 1, 4096, Device::kCpu));
  EXPECT_TRUE(TryBuild("t5-small", 1, 1024, Device::kCpu));
}

TEST(LanguageModels, TiedWeightsAreOneParameter) {
  TrainingGraph gpt2 = BuildModel("gpt2", 1, 8);
  EXPECT_TRUE(HasParameter(gpt2, "transformer.wte.weight"));
  EXPECT_FALSE(HasParameter(gpt2, "lm_head.weight"));
  TrainingGraph bert = BuildModel("bert-base", 1, 8);
  EXPECT_TRUE(HasParameter(bert, "cls.predictions.bias"));
  EXPECT_FALSE(HasParameter(bert, "cls.predictions.decoder.weight"));
  EXPECT_TRUE(HasParameter(BuildModel("deepseek-r1-distill-qwen-1.5b", 1, 8), "lm_head.weight"));
}

// The scores' gradient of the shared weight is a view (a transposed product), which torch does not add to in place:
// the sum with the look-up's gradient is a third tensor of that size.
TEST(LanguageModels, GradientsOfATiedWeightAreSummedIntoANewTensor) {
  TrainingGraph graph = BuildModel("gpt2", 1, 8);
  constexpr Bytes kWeight = 50257 * 768 * 4;
  int sums = 0;
  for (const Op* op : OpsOf(graph, "add", Phase::kBackward)) {
    if (graph.storage_of(op->outputs[0]).bytes == kWeight) ++sums;
  }
  EXPECT_EQ(sums, 1);
  for (const Op* op : OpsOf(graph, "add_", Phase::kBackward))
    EXPECT_NE(graph.storage_of(op->outputs[0]).bytes, kWeight);
}

// ---- Blocks by hand. N tokens, width W; the block's input belongs to what came before.

constexpr std::int64_t kBatch = 2, kLength = 48, kTokens = kBatch * kLength;

TEST(Gpt2, BlockSavesTheseBytesOnTheCpu) {
  constexpr std::int64_t kWidth = 768, kHeads = 12;
  // Of N W floats: 1 + 1 layer norms; 3 query, key and value, lined up for bmm; 1 heads merged; 1 noise of dropout;
  // 1 sum; 5 x 4 in the MLP (input of GELU, its half, tanh, 1 + tanh, product); 1 noise; 1 sum. Mean and deviation
  // twice. Attention weights thrice: softmax, noise, product.
  std::int64_t floats = 30 * kTokens * kWidth + 4 * kTokens + 3 * kBatch * kHeads * kLength * kLength;
  EXPECT_EQ(SavedIn(BuildModel("gpt2", kBatch, kLength), "transformer.h.3"), 4 * floats);
}

TEST(Gpt2, BlockSavesTheseBytesOnCuda) {
  constexpr std::int64_t kWidth = 768, kHeads = 12, kRows = 64;  // 48 queries, in steps of 32
  // As on the CPU, but the fused kernel reads the projection as it is (3) and keeps its output (1) and a number per
  // query and head in place of the weights; masks of dropout are a byte per element. Two seeds of 8 bytes.
  std::int64_t floats = 28 * kTokens * kWidth + 4 * kTokens + kBatch * kHeads * kRows;
  TrainingGraph graph = BuildModel("gpt2", kBatch, kLength, Device::kCuda);
  EXPECT_EQ(SavedIn(graph, "transformer.h.3"), 4 * floats + 2 * kTokens * kWidth + 16);
}

TEST(Gpt2, ForwardFlops) {
  constexpr std::int64_t kWidth = 768, kLayers = 12, kWords = 50257;
  // Two per weight and token (3 + 1 + 4 + 4 times W^2 in a block), two products of length x length x W, the scores.
  std::int64_t block = 2 * kTokens * 12 * kWidth * kWidth + 2 * 2 * kBatch * kLength * kLength * kWidth;
  std::int64_t flops = kLayers * block + 2 * kTokens * kWidth * kWords;
  EXPECT_EQ(Summarize(BuildModel("gpt2", kBatch, kLength)).forward_flops(), flops);
  EXPECT_EQ(Summarize(BuildModel("gpt2", kBatch, kLength, Device::kCuda)).forward_flops(), flops);
}

TEST(Bert, BlockSavesTheseBytesOnTheCpu) {
  constexpr std::int64_t kWidth = 1024, kHeads = 16;
  // 3 query, key, value; 1 merged; 1 noise; 1 sum and 1 norm; 2 x 4 around GELU; 1 noise; 1 sum and 1 norm.
  std::int64_t floats = 18 * kTokens * kWidth + 4 * kTokens + 3 * kBatch * kHeads * kLength * kLength;
  EXPECT_EQ(SavedIn(BuildModel("bert-large", kBatch, kLength), "bert.encoder.layer.20"), 4 * floats);
}

TEST(Opt, BlockKeepsNoAttentionWeights) {
  constexpr std::int64_t kWidth = 768, kHeads = 12;
  // No dropout inside attention, so that the CPU fuses it: 4 for query, key, value and output, one number per query and
  // head. 1 norm, 1 noise, 1 sum, 1 norm, 4 ReLU, 1 noise, 1 sum.
  std::int64_t floats = 14 * kTokens * kWidth + 4 * kTokens + kTokens * kHeads;
  EXPECT_EQ(SavedIn(BuildModel("opt-125m", kBatch, kLength), "model.decoder.layers.3"), 4 * floats);
}

TEST(Llama, BlockSavesTheseBytes) {
  constexpr std::int64_t kWidth = 2048, kHidden = 8192, kHeads = 32, kKeyWidth = 8 * 64;
  // A norm keeps x / rms and that times the weight, and one number per token. Turned queries, turned keys, values; the
  // output of attention; 1 sum; 4 tensors of the MLP (gate, its SiLU, up, product); 1 sum.
  std::int64_t per_token = 2 * (2 * kWidth + 1) + 2 * kWidth + 2 * kKeyWidth + kHeads + 2 * kWidth + 4 * kHidden;
  for (Device device : {Device::kCpu, Device::kCuda}) {
    std::int64_t rows = device == Device::kCuda ? kBatch * kHeads * (64 - kLength) : 0;  // 48 queries become 64
    std::int64_t seeds = device == Device::kCuda ? 16 : 0;
    EXPECT_EQ(SavedIn(BuildModel("llama-3.2-1b", kBatch, kLength, device), "model.layers.3"),
              4 * (kTokens * per_token + rows) + seeds);
  }
}

TEST(Llama, GroupsOfHeadsShareKeysWithoutCopies) {
  TrainingGraph graph = BuildModel("llama-3.2-1b", kBatch, kLength);
  std::vector<const Op*> attention = OpsOf(graph, "_scaled_dot_product_flash_attention_for_cpu");
  ASSERT_EQ(attention.size(), 16u);
  EXPECT_EQ(graph.tensor(attention[0]->inputs[0]).shape, (Dims{kBatch, 32, kLength, 64}));
  EXPECT_EQ(graph.tensor(attention[0]->inputs[1]).shape, (Dims{kBatch, 8, kLength, 64}));
  EXPECT_EQ(OpsOf(graph, "clone").size(), 1u);  // of the shifted labels
}

TEST(Llama, ForwardFlops) {
  constexpr std::int64_t kWidth = 2048, kHidden = 8192, kKeyWidth = 512, kLayers = 16, kWords = 128256;
  std::int64_t weights = 2 * kWidth * kWidth + 2 * kWidth * kKeyWidth + 3 * kWidth * kHidden;
  std::int64_t block = 2 * kTokens * weights + 2 * 2 * kBatch * kLength * kLength * kWidth;
  EXPECT_EQ(Summarize(BuildModel("llama-3.2-1b", kBatch, kLength)).forward_flops(),
            kLayers * block + 2 * kTokens * kWidth * kWords);
}

TEST(Qwen, NormsOfHeadsAndBiases) {
  // Queries (32 x 128) and keys (8 x 128) keep their projection and x / rms, and one number per head, besides what
  // Llama keeps.
  constexpr std::int64_t kWidth = 2560, kHidden = 9728, kHeads = 32, kKeyHeads = 8, kHead = 128;
  std::int64_t per_token = 2 * (2 * kWidth + 1) + kHeads * kHead + 2 * kKeyHeads * kHead + kHeads + kHeads * kHead +
                           2 * kWidth + 4 * kHidden + (kHeads + kKeyHeads) * (2 * kHead + 1);
  EXPECT_EQ(SavedIn(BuildModel("qwen3-4b", kBatch, kLength), "model.layers.3"), 4 * kTokens * per_token);
  TrainingGraph qwen2 = BuildModel("deepseek-r1-distill-qwen-1.5b", kBatch, kLength);
  EXPECT_TRUE(HasParameter(qwen2, "model.layers.3.self_attn.k_proj.bias"));
  EXPECT_FALSE(HasParameter(qwen2, "model.layers.3.self_attn.o_proj.bias"));
}

TEST(Gemma, BlockSavesTheseBytes) {
  constexpr std::int64_t kWidth = 2304, kHidden = 9216, kHeads = 8, kHead = 256;
  // Four norms keep x / rms, one number per token and 1 + weight; two of them also their result, which a product reads.
  // Products into the norms behind attention and MLP (2), sums (2). Queries, keys and values of 8 heads each (keys and
  // values repeated), merged output; tanh and softmax of the scores; the MLP as in Llama.
  std::int64_t per_token = 4 * (kWidth + 1) + 2 * kWidth + 2 * kWidth + 2 * kWidth + 4 * kHeads * kHead + 4 * kHidden;
  std::int64_t floats = kTokens * per_token + 4 * kWidth + 2 * kBatch * kHeads * kLength * kLength;
  for (Device device : {Device::kCpu, Device::kCuda}) {
    EXPECT_EQ(SavedIn(BuildModel("gemma-2-2b", kBatch, kLength, device), "model.layers.3"), 4 * floats);
  }
}

TEST(T5, BiasIsLearntOnceAndPaddedForCuda) {
  TrainingGraph cpu = BuildModel("t5-small", kBatch, 100);
  EXPECT_TRUE(HasParameter(cpu, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"));
  EXPECT_TRUE(HasParameter(cpu, "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"));
  EXPECT_FALSE(HasParameter(cpu, "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"));
  // 6 layers of the encoder, 6 of the decoder, 6 looks from decoder to encoder; rows of 100 begin every 104 elements.
  TrainingGraph cuda = BuildModel("t5-small", kBatch, 100, Device::kCuda);
  std::vector<const Op*> attention = OpsOf(cuda, "_scaled_dot_product_efficient_attention");
  ASSERT_EQ(attention.size(), 18u);
  for (const Op* op : attention) {
    EXPECT_EQ(cuda.tensor(op->inputs[3]).stride, (Dims{0, 100 * 104, 104, 1}));
  }
  EXPECT_TRUE(OpsOf(BuildModel("t5-small", kBatch, 96, Device::kCuda), "constant_pad_nd").empty());
}

TEST(T5, DecoderBlockSavesTheseBytesOnTheCpu) {
  constexpr std::int64_t kWidth = 512, kHidden = 2048, kHeads = 8;
  // Three norms; twice 3 + 1 for attention (heads are as wide as the model) with three tensors of weights; three noises
  // and three sums; ReLU, its noise and their product. Self-attention keeps which places are visible, a byte each.
  std::int64_t floats = kTokens * (3 * (2 * kWidth + 1) + 2 * 4 * kWidth + 3 * 2 * kWidth + 3 * kHidden) +
                        2 * 3 * kBatch * kHeads * kLength * kLength;
  EXPECT_EQ(SavedIn(BuildModel("t5-small", kBatch, kLength), "decoder.block.3"), 4 * floats + kLength * kLength);
}

TEST(GptNeo, KeepsOneTensorOfAttentionWeights) {
  constexpr std::int64_t kWidth = 768, kHeads = 12;
  // No dropout at all: norms 2, query, key, value 3, merged 1, sums 2, MLP 5 x 4; the softmax. Masks are buffers.
  std::int64_t floats = 28 * kTokens * kWidth + 4 * kTokens + kBatch * kHeads * kLength * kLength;
  EXPECT_EQ(SavedIn(BuildModel("gpt-neo-125m", kBatch, kLength), "transformer.h.3"), 4 * floats);
}

}  // namespace
}  // namespace ebbtide::model::zoo
