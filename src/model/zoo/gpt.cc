// GPT-2 (Radford et al. 2019) and the models that share its class, transformers' GPT2LMHeadModel.
#include "model/lora.h"
#include "model/zoo/language.h"

namespace ebbtide::model::zoo {

namespace {

constexpr std::int64_t kWords = 50257;

struct Gpt2 {
  int layers;
  std::int64_t width;
  std::int64_t heads;
  std::int64_t positions = 1024;
  double dropout = 0.1;
  bool exact_gelu = false;  // one kernel; the tanh form of transformers' gelu_new is several
};

// transformers' Conv1D: a linear layer whose weight is stored [in, out].
TensorId Conv1d(Builder& b, const std::string& name, TensorId x, std::int64_t features) {
  auto layer = b.Enter(name);
  TensorId weight = b.Parameter("weight", {b.dim(x, -1), features});
  TensorId bias = b.Parameter("bias", {features});
  TensorId out = op::Addmm(b, bias, op::Reshape(b, x, {-1, b.dim(x, -1)}), weight);
  return WithAdapter(b, x, op::Reshape(b, out, {b.dim(x, 0), b.dim(x, 1), features}));
}

TensorId SelfAttention(Builder& b, TensorId x, const Gpt2& model) {
  auto layer = b.Enter("attn");
  std::vector<TensorId> parts = op::Chunk(b, Conv1d(b, "c_attn", x, 3 * model.width), 3, 2);
  for (TensorId& part : parts) part = SplitHeads(b, part, model.width / model.heads);
  TensorId out = op::Attention(b, parts[0], parts[1], parts[2], {.causal = b.dim(x, 1) > 1, .dropout = model.dropout});
  return op::Dropout(b, Conv1d(b, "c_proj", MergeHeads(b, out), model.width), model.dropout);
}

TensorId Mlp(Builder& b, TensorId x, const Gpt2& model) {
  auto layer = b.Enter("mlp");
  x = Conv1d(b, "c_fc", x, 4 * model.width);
  x = model.exact_gelu ? op::Gelu(b, x) : NewGelu(b, x);
  return op::Dropout(b, Conv1d(b, "c_proj", x, model.width), model.dropout);
}

TensorId Forward(Builder& b, const Sizes& sizes, const Gpt2& model) {
  auto [tokens, labels] = TokenInput(b, sizes);
  TensorId words, x;
  {
    auto transformer = b.Enter("transformer");
    words = nn::EmbeddingWeight(b, "wte", kWords, model.width);
    TensorId embedded = Words(b, nn::EmbeddingOf(b, "wte", words, tokens));
    x = op::Add(b, embedded, nn::Embedding(b, "wpe", Positions(b, sizes.seq_len), model.positions, model.width));
    x = op::Dropout(b, x, model.dropout);
    for (int i = 0; i < model.layers; ++i) {
      auto layer = b.EnterBlock("h." + std::to_string(i));
      x = op::Add(b, SelfAttention(b, nn::LayerNorm(b, "ln_1", x), model), x);
      x = op::Add(b, x, Mlp(b, nn::LayerNorm(b, "ln_2", x), model));
    }
    x = nn::LayerNorm(b, "ln_f", x);
  }
  return NextTokenLoss(b, TiedScores(b, x, words), labels);
}

Member Gpt2Member(const std::string& name, const Gpt2& model) {
  return {name,
          "transformers GPT2LMHeadModel, 512 tokens",
          {.seq_len = 512},
          [=](Builder& b, const Sizes& sizes) { return Forward(b, sizes, model); },
          model.positions};
}

}  // namespace

Family Gpts() {
  return {"language",
          {Gpt2Member("gpt2", {.layers = 12, .width = 768, .heads = 12}),
           Gpt2Member("gpt2-medium", {.layers = 24, .width = 1024, .heads = 16}),
           Gpt2Member("gpt2-large", {.layers = 36, .width = 1280, .heads = 20}),
           Gpt2Member("gpt2-xl", {.layers = 48, .width = 1600, .heads = 25}),
           Gpt2Member("distilgpt2", {.layers = 6, .width = 768, .heads = 12}),
           // As its published configuration has it (Dey et al. 2023): "gelu", and dropout nowhere.
           Gpt2Member("cerebras-gpt-111m",
                      {.layers = 10, .width = 768, .heads = 12, .positions = 2048, .dropout = 0, .exact_gelu = true})}};
}

}  // namespace ebbtide::model::zoo
