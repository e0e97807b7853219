// GPT-Neo (EleutherAI 2021), transformers' GPTNeoForCausalLM. Its attention is spelled out: neither scaled nor fused,
// with a causal mask kept as a buffer in every layer (half of them local), and transformers' own mask added on top.
#include "model/zoo/language.h"

namespace ebbtide::model::zoo {

namespace {

constexpr std::int64_t kWords = 50257, kPositions = 2048, kWidth = 768, kHeads = 12, kHeadWidth = kWidth / kHeads;
constexpr int kLayers = 12;

TensorId SelfAttention(Builder& b, TensorId x, TensorId mask) {
  auto layer = b.Enter("attn.attention");
  TensorId visible = b.Buffer("bias", {1, 1, kPositions, kPositions}, DType::kBool);
  auto heads = [&](const char* name) { return nn::Linear(b, name, x, kWidth, false); };
  auto split = [&](TensorId projected) {
    return op::Permute(b, op::Reshape(b, projected, {b.dim(x, 0), b.dim(x, 1), kHeads, kHeadWidth}), {0, 2, 1, 3});
  };
  TensorId query = heads("q_proj"), key = heads("k_proj"), value = heads("v_proj");
  query = split(query), key = split(key), value = split(value);
  const DType dtype = b.at(value).dtype;
  query = op::Cast(b, query, DType::kFloat32), key = op::Cast(b, key, DType::kFloat32);
  TensorId scores = op::Matmul(b, query, op::Transpose(b, key, -1, -2));
  std::int64_t length = b.dim(x, 1);
  visible = op::Slice(b, op::Slice(b, visible, 2, 0, length), 3, 0, length);
  scores = op::Where(b, visible, scores, op::Fill(b, "full", {}, b.at(scores).dtype));
  scores = op::Add(b, scores, mask);
  TensorId out = op::Matmul(b, op::Cast(b, op::Softmax(b, scores, -1), dtype), value);
  out = op::Contiguous(b, op::Permute(b, out, {0, 2, 1, 3}));
  return nn::Linear(b, "out_proj", op::Flatten(b, out, 2, 3), kWidth);
}

TensorId Mlp(Builder& b, TensorId x) {
  auto layer = b.Enter("mlp");
  return nn::Linear(b, "c_proj", NewGelu(b, nn::Linear(b, "c_fc", x, 4 * kWidth)), kWidth);
}

TensorId Forward(Builder& b, const Sizes& sizes) {
  auto [tokens, labels] = TokenInput(b, sizes);
  TensorId words, x;
  {
    auto transformer = b.Enter("transformer");
    words = nn::EmbeddingWeight(b, "wte", kWords, kWidth);
    TensorId embedded = Words(b, nn::EmbeddingOf(b, "wte", words, tokens));
    TensorId positions = Positions(b, sizes.seq_len);
    TensorId mask = CausalMask(b, sizes.batch, sizes.seq_len);
    x = op::Add(b, embedded, nn::Embedding(b, "wpe", positions, kPositions, kWidth));
    for (int i = 0; i < kLayers; ++i) {
      auto layer = b.EnterBlock("h." + std::to_string(i));
      x = op::Add(b, SelfAttention(b, nn::LayerNorm(b, "ln_1", x), mask), x);
      x = op::Add(b, x, Mlp(b, nn::LayerNorm(b, "ln_2", x)));
    }
    x = nn::LayerNorm(b, "ln_f", x);
  }
  return NextTokenLoss(b, TiedScores(b, x, words), labels);
}

}  // namespace

Family GptNeos() {
  return {"language",
          {{"gpt-neo-125m", "transformers GPTNeoForCausalLM, 512 tokens", {.seq_len = 512}, Forward, kPositions}}};
}

}  // namespace ebbtide::model::zoo
