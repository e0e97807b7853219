// What distinguishes the families. A field that a row does not name is as in Decoder, which is Llama; sizes are the
// defaults of transformers' configuration classes (5.22), which a file's own settings replace.
#include "model/hf/families.h"

#include <algorithm>
#include <iterator>

namespace ebbtide::model::hf {
namespace {

constexpr Names kGpt2 = {.model = "transformer",
                         .words = "wte",
                         .positions = "wpe",
                         .blocks = "h",
                         .attention = "attn",
                         .fused = "c_attn",
                         .out = "c_proj",
                         .up = "c_fc",
                         .down = "c_proj",
                         .attention_norm = "ln_1",
                         .mlp_norm = "ln_2",
                         .last_norm = "ln_f"};
constexpr Names kGptNeox = {.model = "gpt_neox",
                            .words = "embed_in",
                            .attention = "attention",
                            .fused = "query_key_value",
                            .out = "dense",
                            .up = "dense_h_to_4h",
                            .down = "dense_4h_to_h",
                            .last_norm = "final_layer_norm",
                            .head = "embed_out"};
constexpr Names kFalcon = {.model = "transformer",
                           .words = "word_embeddings",
                           .blocks = "h",
                           .attention = "self_attention",
                           .fused = "query_key_value",
                           .out = "dense",
                           .up = "dense_h_to_4h",
                           .down = "dense_4h_to_h",
                           .last_norm = "ln_f"};
constexpr Names kOpt = {.model = "model.decoder",
                        .positions = "embed_positions",
                        .out = "out_proj",
                        .mlp = "",
                        .up = "fc1",
                        .down = "fc2",
                        .attention_norm = "self_attn_layer_norm",
                        .mlp_norm = "final_layer_norm",
                        .last_norm = "final_layer_norm"};
constexpr Names kPhi = {.out = "dense", .up = "fc1", .down = "fc2", .last_norm = "final_layernorm"};
constexpr Names kPhi3 = {.gate = "gate_up_proj"};
constexpr Names kSandwich = {.mlp_norm = "pre_feedforward_layernorm"};
constexpr Names kGraniteMoe = {.experts = "block_sparse_moe", .router = "router"};
constexpr Names kGptOss = {.router = "router"};

Decoder Sized(std::int64_t layers, std::int64_t width, std::int64_t hidden, std::int64_t heads, std::int64_t key_heads,
              std::int64_t head_width, std::int64_t words, Decoder parts) {
  parts.layers = layers, parts.width = width, parts.hidden = hidden, parts.heads = heads;
  parts.key_heads = key_heads, parts.head_width = head_width, parts.words = words;
  return parts;
}

// clang-format off
const std::vector<FamilyRow>& Table() {
  using B = BlockKind; using N = NormKind; using P = ProjectionKind; using R = RouterKind; using T = PositionKind;
  // layers, width, hidden, heads, key heads (0: as heads), head width (0: width / heads), words
  static const auto* table = new std::vector<FamilyRow>{
    {"llama",   "LlamaForCausalLM",   Reading::kPlain,   0, Sized(32, 4096, 11008, 32, 0, 0, 32000, {})},
    {"mistral", "MistralForCausalLM", Reading::kMistral, 0, Sized(32, 4096, 14336, 32, 8, 0, 32000,
      {.repeats_keys = true, .window = 4096})},
    {"qwen2",   "Qwen2ForCausalLM",   Reading::kQwen,    0, Sized(32, 4096, 22016, 32, 32, 0, 151936,
      {.qkv_bias = true, .repeats_keys = true})},
    {"qwen3",   "Qwen3ForCausalLM",   Reading::kQwen,    0, Sized(32, 4096, 22016, 32, 32, 128, 151936, {.head_norm = true})},
    {"gemma",   "GemmaForCausalLM",   Reading::kPlain,   0, Sized(28, 3072, 24576, 16, 16, 256, 256000,
      {.norm = N::kRmsOffset, .activation = "gelu_pytorch_tanh", .tied = true, .scaled_words = true})},
    {"gemma2",  "Gemma2ForCausalLM",  Reading::kGemma,   2, Sized(26, 2304, 9216, 8, 4, 256, 256000,
      {.norm = N::kRmsOffset, .block = B::kSandwich, .activation = "gelu_pytorch_tanh", .tied = true, .scaled_words = true,
       .eager_only = true, .score_cap = 50, .logit_cap = 30, .window = 4096, .names = kSandwich})},
    {"gemma3_text", "Gemma3ForCausalLM", Reading::kGemma, 6, Sized(26, 2304, 9216, 8, 4, 256, 262208,
      {.norm = N::kRmsOffset, .block = B::kSandwich, .activation = "gelu_pytorch_tanh", .tied = true, .head_norm = true,
       .scaled_words = true, .window = 4096, .rotary_tables = 2, .names = kSandwich})},
    {"phi",     "PhiForCausalLM",     Reading::kPlain,   0, Sized(24, 2048, 8192, 32, 0, 0, 51200,
      {.norm = N::kLayer, .mlp = MlpKind::kPlain, .block = B::kParallel, .activation = "gelu_new", .qkv_bias = true, .out_bias = true,
       .mlp_bias = true, .head_bias = true, .rotary_share = 0.5, .names = kPhi})},
    {"phi3",    "Phi3ForCausalLM",    Reading::kMistral, 0, Sized(32, 3072, 8192, 32, 0, 0, 32064,
      {.projections = P::kByPart, .mlp = MlpKind::kGatedFused, .joins_rest = true, .names = kPhi3})},
    {"granite", "GraniteForCausalLM", Reading::kPlain,   0, Sized(32, 4096, 11008, 32, 0, 0, 32000, {.multiplied = true})},
    {"gpt2",    "GPT2LMHeadModel",    Reading::kPlain,   0, Sized(12, 768, 0, 12, 0, 0, 50257,
      {.places = 1024, .norm = N::kLayer, .positions = T::kLearnt, .projections = P::kByPart, .mlp = MlpKind::kPlain, .activation = "gelu_new",
       .tied = true, .qkv_bias = true, .out_bias = true, .mlp_bias = true, .conv1d = true, .embedding_dropout = 0.1,
       .residual_dropout = 0.1, .attention_dropout = 0.1, .names = kGpt2})},
    {"gpt_bigcode", "GPTBigCodeForCausalLM", Reading::kBigCode, 0, Sized(12, 768, 0, 12, 1, 0, 50257,
      {.places = 1024, .norm = N::kLayer, .positions = T::kLearnt, .projections = P::kByPart, .mlp = MlpKind::kPlain,
       .activation = "gelu_pytorch_tanh", .tied = true, .qkv_bias = true, .out_bias = true, .mlp_bias = true, .kept_mask = true,
       .embedding_dropout = 0.1, .residual_dropout = 0.1, .attention_dropout = 0.1, .names = kGpt2})},
    {"gpt_neox", "GPTNeoXForCausalLM", Reading::kGptNeox, 0, Sized(44, 6144, 24576, 64, 0, 0, 50432,
      {.norm = N::kLayer, .projections = P::kByHead, .mlp = MlpKind::kPlain, .block = B::kParallelTwoNorms, .activation = "gelu",
       .qkv_bias = true, .out_bias = true, .mlp_bias = true, .rotary_share = 0.25, .names = kGptNeox})},
    {"opt",     "OPTForCausalLM",     Reading::kOpt,     0, Sized(12, 768, 3072, 12, 0, 0, 50272,
      {.places = 2048, .spare_places = 2, .norm = N::kLayer, .positions = T::kLearnt, .mlp = MlpKind::kPlain, .activation = "relu",
       .tied = true, .qkv_bias = true, .out_bias = true, .mlp_bias = true, .scaled_query = true, .flat_mlp = true,
       .residual_dropout = 0.1, .names = kOpt})},
    {"falcon",  "FalconForCausalLM",  Reading::kFalcon,  0, Sized(32, 4544, 0, 71, 1, 0, 65024,
      {.norm = N::kLayer, .projections = P::kByGroup, .mlp = MlpKind::kPlain, .block = B::kParallel, .activation = "gelu", .tied = true,
       .sum_in_place = true, .names = kFalcon})},
    {"olmo",    "OlmoForCausalLM",    Reading::kPlain,   0, Sized(32, 4096, 11008, 32, 0, 0, 50304, {.norm = N::kLayerBare})},
    {"olmo2",   "Olmo2ForCausalLM",   Reading::kPlain,   0, Sized(32, 4096, 11008, 32, 0, 0, 50304,
      {.norm = N::kRmsWide, .block = B::kPostNorm, .wide_norm = true})},
    {"deepseek_v2", "DeepseekV2ForCausalLM", Reading::kDeepseek, 0, Sized(32, 4096, 11008, 32, 0, 0, 102400,
      {.value_width = 128, .positions = T::kRotaryComplex, .projections = P::kLatent,
       .experts = {.count = 64, .hidden = 1407, .router = R::kGroupedSoftmax},
       .latent = {.query_rank = 1536, .key_rank = 512, .plain_width = 128, .rotary_width = 64}})},
    {"deepseek_v3", "DeepseekV3ForCausalLM", Reading::kDeepseek, 0, Sized(61, 7168, 18432, 128, 0, 0, 129280,
      {.value_width = 128, .positions = T::kRotaryPairs, .projections = P::kLatent,
       .experts = {.count = 256, .per_token = 8, .hidden = 2048, .router = R::kGroupedSigmoid, .normed = true, .groups = 8, .best_groups = 4,
                   .by_groups = true, .first_layer = 3},
       .latent = {.query_rank = 1536, .key_rank = 512, .plain_width = 128, .rotary_width = 64}})},
    {"mixtral", "MixtralForCausalLM", Reading::kMistral, 0, Sized(32, 4096, 14336, 32, 8, 0, 32000,
      {.repeats_keys = true, .experts = {.count = 8, .per_token = 2, .normed = true}})},
    {"qwen2_moe", "Qwen2MoeForCausalLM", Reading::kQwen, 0, Sized(24, 2048, 5632, 16, 16, 0, 151936,
      {.qkv_bias = true, .repeats_keys = true, .experts = {.count = 60, .per_token = 4, .hidden = 1408, .shared_hidden = 5632, .shared_gated = true, .in_model_type = true}})},
    {"qwen3_moe", "Qwen3MoeForCausalLM", Reading::kQwen, 0, Sized(24, 2048, 6144, 32, 4, 0, 151936,
      {.head_norm = true, .experts = {.count = 128, .per_token = 8, .hidden = 768, .in_model_type = true}})},
    {"granitemoe", "GraniteMoeForCausalLM", Reading::kPlain, 0, Sized(32, 4096, 11008, 32, 0, 0, 32000,
      {.multiplied = true, .experts = {.count = 8, .per_token = 2, .router = R::kTopFirst}, .names = kGraniteMoe})},
    {"gpt_oss", "GptOssForCausalLM",  Reading::kGemma,   2, Sized(36, 2880, 2880, 64, 8, 64, 201088,
      {.norm = N::kRmsWide, .positions = T::kRotaryHalves, .qkv_bias = true, .out_bias = true, .sinks = true, .eager_only = true,
       .window = 128, .experts = {.count = 128, .per_token = 4, .router = R::kTopFirst, .bias = true, .clamped = true}, .names = kGptOss})},
  };
  return *table;
}
// clang-format on

}  // namespace

const std::vector<FamilyRow>& DecoderFamilies() { return Table(); }

bool LigerHasFusedLoss(std::string_view model_type) {
  constexpr std::string_view kWithout[] = {"phi", "granite", "gpt2", "gpt_bigcode", "gpt_neox",
                                           "opt", "falcon",  "olmo", "qwen2_moe",   "granitemoe"};
  return std::ranges::find(kWithout, model_type) == std::end(kWithout);
}

const FamilyRow* FindDecoderFamily(const std::string& model_type) {
  for (const FamilyRow& row : Table()) {
    if (row.model_type == model_type) return &row;
  }
  return nullptr;
}

}  // namespace ebbtide::model::hf
