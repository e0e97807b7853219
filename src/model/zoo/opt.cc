// OPT (Zhang et al. 2022), transformers' OPTForCausalLM. The random number that it draws before every layer, to drop
// none, is not recorded.
#include "model/zoo/language.h"

namespace ebbtide::model::zoo {

namespace {

constexpr std::int64_t kWords = 50272, kPositions = 2048;
constexpr double kDropout = 0.1;

struct Opt {
  int layers;
  std::int64_t width;
  std::int64_t heads;
  std::int64_t word_width;  // of the embedding; projected where it is not `width`
  bool norm_before;         // in front of attention and MLP; else behind the sum
};

// Positions are counted from a mask of ones, in floats, and looked up two rows further on.
TensorId PositionEmbedding(Builder& b, const Sizes& sizes, const Opt& model) {
  TensorId ones = op::Fill(b, "ones", {sizes.batch, sizes.seq_len});
  TensorId places = op::Mul(b, op::Unary(b, "cumsum", ones, {{"dim", std::int64_t{1}}}), ones);
  places = op::Cast(b, op::WithScalar(b, "sub", places, 1), DType::kInt64);
  return nn::Embedding(b, "embed_positions", op::WithScalar(b, "add", places, 2), kPositions + 2, model.width);
}

TensorId SelfAttention(Builder& b, TensorId x, const Opt& model) {
  auto layer = b.Enter("self_attn");
  std::int64_t head_width = model.width / model.heads;
  TensorId query = op::WithScalar(b, "mul", nn::Linear(b, "q_proj", x, model.width), 0.125);
  query = SplitHeads(b, query, head_width);
  TensorId key = nn::Linear(b, "k_proj", x, model.width), value = nn::Linear(b, "v_proj", x, model.width);
  key = SplitHeads(b, key, head_width), value = SplitHeads(b, value, head_width);
  TensorId out = op::Attention(b, query, key, value, {.causal = b.dim(x, 1) > 1, .scale = 1.0});
  return nn::Linear(b, "out_proj", MergeHeads(b, out), model.width);
}

TensorId DecoderLayer(Builder& b, TensorId x, const Opt& model) {
  TensorId in = model.norm_before ? nn::LayerNorm(b, "self_attn_layer_norm", x) : x;
  x = op::Add(b, x, op::Dropout(b, SelfAttention(b, in, model), kDropout));
  if (!model.norm_before) x = nn::LayerNorm(b, "self_attn_layer_norm", x);
  Dims shape = b.shape(x);
  x = op::Reshape(b, x, {-1, model.width});
  in = model.norm_before ? nn::LayerNorm(b, "final_layer_norm", x) : x;
  TensorId hidden = op::Relu(b, nn::Linear(b, "fc1", in, 4 * model.width));
  x = op::Reshape(b, op::Add(b, x, op::Dropout(b, nn::Linear(b, "fc2", hidden, model.width), kDropout)), shape);
  return model.norm_before ? x : nn::LayerNorm(b, "final_layer_norm", x);
}

TensorId Forward(Builder& b, const Sizes& sizes, const Opt& model) {
  auto [tokens, labels] = TokenInput(b, sizes);
  TensorId words, x;
  {
    auto decoder = b.Enter("model.decoder");
    words = nn::EmbeddingWeight(b, "embed_tokens", kWords, model.word_width);
    x = Words(b, nn::EmbeddingOf(b, "embed_tokens", words, tokens));
    TensorId positions = PositionEmbedding(b, sizes, model);
    bool project = model.word_width != model.width;
    if (project) x = nn::Linear(b, "project_in", x, model.width, false);
    x = op::Add(b, x, positions);
    for (int i = 0; i < model.layers; ++i) {
      auto layer = b.EnterBlock("layers." + std::to_string(i));
      x = DecoderLayer(b, x, model);
    }
    if (model.norm_before) x = nn::LayerNorm(b, "final_layer_norm", x);
    if (project) x = nn::Linear(b, "project_out", x, model.word_width, false);
  }
  return NextTokenLoss(b, TiedScores(b, x, words), labels);
}

Member OptMember(const std::string& name, const Opt& model) {
  return {name,
          "transformers OPTForCausalLM, 512 tokens",
          {.seq_len = 512},
          [=](Builder& b, const Sizes& sizes) { return Forward(b, sizes, model); },
          kPositions};
}

}  // namespace

Family Opts() {
  return {"language",
          {OptMember("opt-125m", {.layers = 12, .width = 768, .heads = 12, .word_width = 768, .norm_before = true}),
           OptMember("opt-350m", {.layers = 24, .width = 1024, .heads = 16, .word_width = 512, .norm_before = false})}};
}

}  // namespace ebbtide::model::zoo
