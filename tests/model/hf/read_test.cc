// Configurations of Hugging Face: what is read, what is refused, and files that were damaged.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "graph/check.h"
#include "graph/summary.h"
#include "model/hf/families.h"
#include "model/hf/hf.h"

namespace ebbtide::model::hf {
namespace {

using testing::HasSubstr;

constexpr const char* kTiny =
    R"json({{"model_type": "{}", "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48,
 "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 64, "head_dim": 8, "n_layer": 2, "n_embd": 32, "n_head": 4,
 "ffn_dim": 48, "word_embed_proj_dim": 32, "kv_lora_rank": 8, "q_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
 "v_head_dim": 8, "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2,
 "topk_group": 1, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "first_k_dense_replace": 1}})json";

ModelOptions Options(Device device = Device::kCuda) {
  ModelOptions options;
  options.batch_size = 2;
  options.seq_len = 16;
  options.device = device;
  options.optimizer = "adamw";
  return options;
}

TrainingGraph Read(const std::string& text, const ModelOptions& options) {
  auto graph = ParseModel("config.json", text, options);
  EXPECT_TRUE(graph.has_value()) << (graph ? "" : graph.error().message);
  return graph ? *std::move(graph) : TrainingGraph{};
}

std::string Complaint(const std::string& text, const ModelOptions& options = Options()) {
  const auto graph = ParseModel("config.json", text, options);
  return graph ? "" : graph.error().message;
}

// Embedding and head 64 x 32 each; per layer four projections of 32 x 32, three of 32 x 48 and two norms; a last norm.
TEST(HuggingFace, ParametersAreThoseOfTheSizes) {
  const TrainingGraph graph = Read(fmt::format(kTiny, "llama"), Options());
  EXPECT_EQ(Summarize(graph).parameters, 2 * 64 * 32 + 2 * (4 * 32 * 32 + 3 * 32 * 48 + 2 * 32) + 32);
}

TEST(HuggingFace, EveryFamilyTrainsWithEveryOption) {
  for (const FamilyRow& family : DecoderFamilies()) {
    const std::string text = fmt::format(kTiny, family.model_type);
    for (const Device device : {Device::kCpu, Device::kCuda}) {
      EXPECT_TRUE(Check(Read(text, Options(device))).has_value()) << family.model_type;
    }
    ModelOptions options = Options();
    options.dtype = DType::kBFloat16;
    options.lora = 4;
    options.lora_targets = {"*"};
    options.lora_dropout = 0.1;
    options.clip = true;
    options.packing = true;
    options.resize_vocab = 65;
    for (const CheckpointKind kind : {CheckpointKind::kPlain, CheckpointKind::kReentrant, CheckpointKind::kOffload}) {
      options.checkpoint = "";
      options.checkpoint_kind = kind;
      EXPECT_TRUE(Check(Read(text, options)).has_value()) << family.model_type;
    }
    for (const Quantization how : {Quantization::kNf4, Quantization::kInt8, Quantization::kFp8}) {
      options.quantize = how;
      EXPECT_TRUE(Check(Read(text, options)).has_value()) << family.model_type;
    }
  }
}

TEST(HuggingFace, AdaptersAloneAreTrained) {
  ModelOptions options = Options();
  options.dtype = DType::kBFloat16;
  options.lora = 4;
  const TrainingGraph graph = Read(fmt::format(kTiny, "llama"), options);
  Bytes gradients = 0;
  for (const Storage& storage : graph.storages) {
    if (storage.kind == StorageKind::kGradient) gradients += storage.bytes;
  }
  // q_proj and v_proj of two layers, A and B of rank 4 each, in float32.
  EXPECT_EQ(gradients, 2 * 2 * (32 * 4 + 4 * 32) * 4);
}

// 4 bits per weight, a byte per 64, a float per 64 x 256 (one block here), 16 entries of a table and an offset.
TEST(HuggingFace, Nf4StoresCodesAndTables) {
  ModelOptions options = Options();
  options.dtype = DType::kBFloat16;
  options.lora = 4;
  options.quantize = Quantization::kNf4;
  const TrainingGraph graph = Read(fmt::format(kTiny, "llama"), options);
  Bytes bytes = 0;
  for (const Storage& storage : graph.storages) {
    if (IsPersistent(storage.kind) && storage.name.starts_with("model.layers.0.self_attn.o_proj."))
      bytes += storage.bytes;
  }
  EXPECT_EQ(bytes, 32 * 32 / 2 + 32 * 32 / 64 + 4 + 16 * 4 + 4);
}

// A byte per weight and a float per row; the product keeps the weight that was made of them, in 16 bits, until
// backward.
TEST(HuggingFace, Fp8KeepsWhatItMakesForBackward) {
  ModelOptions options = Options();
  options.dtype = DType::kBFloat16;
  options.lora = 4;
  const TrainingGraph plain = Read(fmt::format(kTiny, "llama"), options);
  options.quantize = Quantization::kFp8;
  const TrainingGraph graph = Read(fmt::format(kTiny, "llama"), options);
  Bytes bytes = 0;
  for (const Storage& storage : graph.storages) {
    if (IsPersistent(storage.kind) && storage.name.starts_with("model.layers.0.self_attn.o_proj."))
      bytes += storage.bytes;
  }
  EXPECT_EQ(bytes, 32 * 32 + 32 * 4);
  // Seven products in each of two layers, but those of the first whose input needs no gradient: q, k and v.
  const Bytes kept = 2 * (2 * (4 * 32 * 32 + 3 * 32 * 48) - 3 * 32 * 32);
  EXPECT_EQ(Summarize(graph).saved_bytes - Summarize(plain).saved_bytes, kept);
}

// Queries, keys and values are one op with one gradient, which is written over what they read; what is behind the
// attention is an op of its own. Beside x, of 2 x 16 rows of 32, what dropout made of it is kept once for each layer.
TEST(HuggingFace, FourBitLayersAndTheirAdaptersAreFusedByFmsAcceleration) {
  ModelOptions options = Options();
  options.dtype = DType::kBFloat16;
  options.lora = 4;
  options.lora_dropout = 0.1;
  options.lora_targets = {"q_proj", "k_proj", "v_proj", "o_proj"};
  options.quantize = Quantization::kNf4;
  options.kernels = KernelSet::kFoak;
  const TrainingGraph graph = Read(fmt::format(kTiny, "llama"), options);
  const auto count = [&](const std::string& kind) { return std::ranges::count(graph.ops, kind, &Op::kind); };
  EXPECT_EQ(count("fused_lora_nf4_"), 2);
  EXPECT_EQ(count("fused_lora_nf4"), 2);
  EXPECT_EQ(count("fused_lora_weights_backward"), 4);
  EXPECT_EQ(count("fused_lora_nf4_input_backward_"), 1);  // nothing below the first layer is trained
  EXPECT_EQ(count("fused_lora_nf4_input_backward"), 2);
  const Op& together = *std::ranges::find(graph.ops, "fused_lora_nf4_", &Op::kind);
  ASSERT_EQ(together.outputs.size(), 6U);
  for (const std::size_t dropped : {1, 3, 5}) {
    const Storage& storage = graph.storage_of(together.outputs[dropped]);
    EXPECT_EQ(storage.kind, StorageKind::kActivation);
    EXPECT_EQ(storage.bytes, 2 * 16 * 32 * 2);
  }
  options.lora_targets = {"q_proj", "v_proj"};  // not all three
  EXPECT_EQ(std::ranges::count_if(Read(fmt::format(kTiny, "llama"), options).ops,
                                  [](const Op& op) { return op.kind.starts_with("fused_lora"); }),
            0);
}

// A copy in float32, which accelerate hands out and nothing reads.
TEST(HuggingFace, UnderAutocastScoresAreHandedOutWide) {
  ModelOptions options = Options();
  const auto casts = [&] {
    const TrainingGraph graph = Read(fmt::format(kTiny, "llama"), options);
    return std::ranges::count_if(graph.ops, [&](const Op& op) {
      return op.kind == "_to_copy" && op.phase == Phase::kForward && graph.tensor(op.outputs[0]).shape.back() == 64 &&
             graph.tensor(op.outputs[0]).dtype == DType::kFloat32 && graph.tensor(op.outputs[0]).shape.size() == 3;
    });
  };
  options.dtype = DType::kBFloat16;
  EXPECT_EQ(casts(), 1);  // for the loss
  options.autocast = DType::kBFloat16;
  EXPECT_EQ(casts(), 2);
}

TEST(HuggingFace, AFusedLossThatNoLibraryHasIsSaidToBeAssumed) {
  ModelOptions options = Options();
  options.dtype = DType::kBFloat16;
  options.loss = LossKernel::kFused;
  EXPECT_FALSE(Read(fmt::format(kTiny, "llama"), options).meta.contains("assumed"));
  EXPECT_THAT(Read(fmt::format(kTiny, "granite"), options).meta.at("assumed"), HasSubstr("none for granite"));
}

// What a block saves is kept for one block at a time.
TEST(HuggingFace, CheckpointsSaveLess) {
  ModelOptions options = Options();
  const Bytes plain = Summarize(Read(fmt::format(kTiny, "llama"), options)).saved_bytes;
  options.checkpoint = "";
  EXPECT_LT(Summarize(Read(fmt::format(kTiny, "llama"), options)).saved_bytes, plain);
}

TEST(HuggingFace, ComplaintsNameTheSetting) {
  EXPECT_THAT(Complaint("[1]"), HasSubstr("config.json: expected an object"));
  EXPECT_THAT(Complaint(R"({"model_type": "lama"})"), HasSubstr("llama"));
  EXPECT_THAT(Complaint(R"({"model_type": "llama", "hidden_size": "wide"})"),
              HasSubstr("hidden_size: expected a whole number"));
  EXPECT_THAT(Complaint(R"({"model_type": "llama", "num_attention_heads": 7})"), HasSubstr("num_attention_heads"));
  EXPECT_THAT(Complaint(R"({"model_type": "llama", "hidden_act": "wave"})"), HasSubstr("hidden_act: \"wave\""));
  EXPECT_THAT(Complaint(R"({"model_type": "falcon", "alibi": true})"), HasSubstr("alibi"));
  EXPECT_THAT(Complaint(R"({"model_type": "llama", "hidden_size": 99999999999})"), HasSubstr("hidden_size"));
  ModelOptions options = Options();
  options.seq_len = 5000;
  EXPECT_THAT(Complaint(R"({"model_type": "gpt2"})", options), HasSubstr("--seq-len 5000: expected at most 1024"));
  options = Options();
  options.attention = AttentionKernel::kFlash;
  EXPECT_THAT(Complaint(R"({"model_type": "llama"})", options), HasSubstr("--attention flash"));
}

// Whatever is damaged: a graph that passes Check, or one line.
TEST(HuggingFace, DamagedFilesAreReadOrRefused) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const std::vector<FamilyRow>& families = DecoderFamilies();
    std::string text = fmt::format(kTiny, families[random() % families.size()].model_type);
    for (int change = 0; change < 3; ++change) {
      char& c = text[random() % text.size()];
      c = change == 0 ? static_cast<char>('0' + random() % 10) : static_cast<char>(32 + random() % 96);
    }
    ModelOptions options = Options(i % 2 ? Device::kCpu : Device::kCuda);
    const auto graph = ParseModel("config.json", text, options);
    if (graph) {
      EXPECT_TRUE(Check(*graph).has_value()) << text;
    } else {
      EXPECT_TRUE(graph.error().message.starts_with("config.json: ")) << graph.error().message;
      EXPECT_EQ(graph.error().message.find('\n'), std::string::npos);
      EXPECT_THAT(graph.error().message, testing::Not(HasSubstr("the training graph")));
    }
  }
}

}  // namespace
}  // namespace ebbtide::model::hf
