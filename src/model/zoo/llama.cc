// Decoders in the manner of Llama (Touvron et al. 2023): RMS norms, rotary positions, keys and values shared by groups
// of heads, gated MLP. transformers' LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM and Gemma2ForCausalLM.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "model/zoo/language.h"

namespace ebbtide::model::zoo {

namespace {

struct Decoder {
  int layers;
  std::int64_t width;
  std::int64_t hidden;
  std::int64_t heads;
  std::int64_t key_heads;
  std::int64_t head_width;
  std::int64_t words;
  bool tied;            // scores share the weight of the embedding
  bool attention_bias;  // in the projections to query, key and value (qwen2)
  bool head_norm;       // of queries and keys (qwen3)
  bool gemma;           // embedding scaled, norms behind the parts too, scores and logits capped, attention spelled out
};

constexpr double kGemmaScoreCap = 50, kGemmaLogitCap = 30;
constexpr std::int64_t kGemmaWindow = 4096;

struct Rotary {
  TensorId cosine, sine;  // [1, length, head_width]
};

Rotary RotaryPositions(Builder& b, std::int64_t length, std::int64_t head_width) {
  TensorId positions = Positions(b, length);
  auto layer = b.Enter("rotary_emb");
  TensorId frequency = b.Buffer("inv_freq", {head_width / 2});
  b.Buffer("original_inv_freq", {head_width / 2});
  TensorId angle = op::Cast(b, op::Unsqueeze(b, positions, 2), DType::kFloat32);
  angle = op::Mul(b, angle, frequency);
  angle = op::Cat(b, {angle, angle}, -1);
  TensorId cosine = op::WithScalar(b, "mul", op::Unary(b, "cos", angle), 1);
  return {cosine, op::WithScalar(b, "mul", op::Unary(b, "sin", angle), 1)};
}

TensorId Rotate(Builder& b, TensorId x, const Rotary& rotary) {
  std::int64_t width = b.dim(x, -1);
  TensorId straight = op::Mul(b, x, rotary.cosine);
  TensorId first = op::Slice(b, x, -1, 0, width / 2), second = op::Slice(b, x, -1, width / 2, width);
  TensorId turned = op::Cat(b, {op::Unary(b, "neg", second), first}, -1);
  return op::Add(b, straight, op::Mul(b, turned, rotary.sine));
}

// Every head of keys or values once for each query head that shares it.
TensorId RepeatHeads(Builder& b, TensorId x, std::int64_t times) {
  if (times == 1) return x;
  const Dims shape = b.shape(x);
  x = op::Expand(b, op::Unsqueeze(b, x, 2), {shape[0], shape[1], times, shape[2], shape[3]});
  return op::Reshape(b, x, {shape[0], shape[1] * times, shape[2], shape[3]});
}

TensorId Capped(Builder& b, TensorId x, double cap) {
  return op::WithScalar(b, "mul", op::Unary(b, "tanh", op::WithScalar(b, "div", x, cap)), cap);
}

TensorId CappedAttention(Builder& b, TensorId query, TensorId key, TensorId value, TensorId mask) {
  std::int64_t times = b.dim(query, 1) / b.dim(key, 1);
  key = RepeatHeads(b, key, times), value = RepeatHeads(b, value, times);
  TensorId scores = op::Matmul(b, query, op::Transpose(b, key, 2, 3));
  scores = op::WithScalar(b, "mul", scores, 1 / std::sqrt(static_cast<double>(b.dim(query, -1))));
  scores = op::Add(b, Capped(b, scores, kGemmaScoreCap), mask);
  scores = op::Softmax(b, op::Cast(b, scores, DType::kFloat32), -1);
  return op::Matmul(b, op::Cast(b, scores, b.at(query).dtype), value);
}

TensorId SelfAttention(Builder& b, TensorId x, const Decoder& model, const Rotary& positions, TensorId mask) {
  auto layer = b.Enter("self_attn");
  auto project = [&](const char* name, std::int64_t heads, const char* norm) {
    TensorId out = nn::Linear(b, name, x, heads * model.head_width, model.attention_bias);
    if (!norm || !model.head_norm) return SplitHeads(b, out, model.head_width);
    out = op::Reshape(b, out, {b.dim(x, 0), b.dim(x, 1), heads, model.head_width});
    return op::Transpose(b, RmsNorm(b, norm, out), 1, 2);
  };
  TensorId query = project("q_proj", model.heads, "q_norm");
  TensorId key = project("k_proj", model.key_heads, "k_norm");
  TensorId value = project("v_proj", model.key_heads, nullptr);
  Rotary rotary = {op::Unsqueeze(b, positions.cosine, 1), {}};
  rotary.sine = op::Unsqueeze(b, positions.sine, 1);
  query = Rotate(b, query, rotary), key = Rotate(b, key, rotary);
  double scale = 1 / std::sqrt(static_cast<double>(model.head_width));
  TensorId out = model.gemma ? CappedAttention(b, query, key, value, mask)
                             : op::Attention(b, query, key, value, {.causal = b.dim(x, 1) > 1, .scale = scale});
  return nn::Linear(b, "o_proj", MergeHeads(b, out), model.width, false);
}

TensorId GatedMlp(Builder& b, TensorId x, const Decoder& model) {
  auto layer = b.Enter("mlp");
  TensorId gate = nn::Linear(b, "gate_proj", x, model.hidden, false);
  gate = model.gemma ? op::GeluTanh(b, gate) : op::Unary(b, "silu", gate);
  return nn::Linear(b, "down_proj", op::Mul(b, gate, nn::Linear(b, "up_proj", x, model.hidden, false)), model.width,
                    false);
}

TensorId DecoderLayer(Builder& b, TensorId x, const Decoder& model, const Rotary& positions, TensorId mask) {
  auto norm = [&](const char* name, TensorId in) { return RmsNorm(b, name, in, model.gemma); };
  TensorId out = SelfAttention(b, norm("input_layernorm", x), model, positions, mask);
  if (model.gemma) {
    x = op::Add(b, x, norm("post_attention_layernorm", out));
    out = GatedMlp(b, norm("pre_feedforward_layernorm", x), model);
    return op::Add(b, x, norm("post_feedforward_layernorm", out));
  }
  x = op::Add(b, x, out);
  return op::Add(b, x, GatedMlp(b, norm("post_attention_layernorm", x), model));
}

TensorId Embed(Builder& b, TensorId words, TensorId tokens, const Decoder& model) {
  auto layer = b.Enter("embed_tokens");
  TensorId x = op::Embedding(b, words, tokens);
  return Words(b, model.gemma ? op::Mul(b, x, b.Buffer("embed_scale", {})) : x);
}

TensorId Forward(Builder& b, const Sizes& sizes, const Decoder& model) {
  auto [tokens, labels] = TokenInput(b, sizes);
  TensorId words, x;
  {
    auto decoder = b.Enter("model");
    words = nn::EmbeddingWeight(b, "embed_tokens", model.words, model.width);
    x = Embed(b, words, tokens, model);
    std::array<TensorId, 2> masks;  // of gemma's even layers, which see a window, and of the others
    if (model.gemma) {
      masks[1] = CausalMask(b, sizes.batch, sizes.seq_len);
      masks[0] = CausalMask(b, sizes.batch, sizes.seq_len, kGemmaWindow);
    }
    Rotary positions = RotaryPositions(b, sizes.seq_len, model.head_width);
    for (int i = 0; i < model.layers; ++i) {
      auto layer = b.EnterBlock("layers." + std::to_string(i));
      x = DecoderLayer(b, x, model, positions, masks[i % 2]);
    }
    x = RmsNorm(b, "norm", x, model.gemma);
  }
  TensorId logits = model.tied ? TiedScores(b, x, words) : nn::Linear(b, "lm_head", x, model.words, false);
  if (model.gemma) logits = Capped(b, logits, kGemmaLogitCap);
  return NextTokenLoss(b, logits, labels);
}

struct Row {
  const char* name;
  const char* transformers_class;
  Decoder model;
};

// clang-format off
// layers, width, hidden, heads, key_heads, head_width, words; tied, attention_bias, head_norm, gemma
const Row kTable[] = {
    {"llama-3.2-1b",                  "LlamaForCausalLM",  {16, 2048, 8192, 32, 8,  64, 128256, true,  false, false, false}},
    {"llama-3.2-3b",                  "LlamaForCausalLM",  {28, 3072, 8192, 24, 8, 128, 128256, true,  false, false, false}},
    {"qwen3-4b",                      "Qwen3ForCausalLM",  {36, 2560, 9728, 32, 8, 128, 151936, true,  false, true,  false}},
    {"gemma-2-2b",                    "Gemma2ForCausalLM", {26, 2304, 9216,  8, 4, 256, 256000, true,  false, false, true}},
    {"deepseek-r1-distill-qwen-1.5b", "Qwen2ForCausalLM",  {28, 1536, 8960, 12, 2, 128, 151936, false, true,  false, false}},
};
// clang-format on

}  // namespace

Family Llamas() {
  Family family{"language", {}};
  for (const Row& row : kTable) {
    family.members.push_back({row.name,
                              fmt::format("transformers {}, 512 tokens", row.transformers_class),
                              {.seq_len = 512},
                              [&row](Builder& b, const Sizes& sizes) { return Forward(b, sizes, row.model); }});
  }
  return family;
}

}  // namespace ebbtide::model::zoo
