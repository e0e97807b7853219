// BERT (Devlin et al. 2018), transformers' BertForMaskedLM.
#include "model/zoo/language.h"

namespace ebbtide::model::zoo {

namespace {

constexpr std::int64_t kWords = 30522, kPositions = 512, kTokenTypes = 2;
constexpr double kDropout = 0.1;

struct Bert {
  int layers;
  std::int64_t width;
  std::int64_t heads;
};

TensorId Embeddings(Builder& b, TensorId tokens, TensorId words, const Sizes& sizes, const Bert& model) {
  auto layer = b.Enter("embeddings");
  TensorId all_positions = b.Buffer("position_ids", {1, kPositions}, DType::kInt64);
  TensorId all_types = b.Buffer("token_type_ids", {1, kPositions}, DType::kInt64);
  Dims row = {1, sizes.seq_len};
  TensorId positions = op::Slice(b, all_positions, 1, 0, sizes.seq_len);
  TensorId types =
      b.CallOne("gather", {{"self", all_types}, {"dim", std::int64_t{1}}, {"index", positions}}, {row, DType::kInt64});
  types = op::Expand(b, types, {sizes.batch, sizes.seq_len});
  TensorId x = Words(b, nn::EmbeddingOf(b, "word_embeddings", words, tokens));
  x = op::Add(b, x, nn::Embedding(b, "token_type_embeddings", types, kTokenTypes, model.width));
  x = op::Add(b, x, nn::Embedding(b, "position_embeddings", positions, kPositions, model.width));
  return op::Dropout(b, nn::LayerNorm(b, "LayerNorm", x), kDropout);
}

// Linear, dropout, sum with what went in, layer norm.
TensorId Output(Builder& b, TensorId x, TensorId residual) {
  auto layer = b.Enter("output");
  x = op::Dropout(b, nn::Linear(b, "dense", x, b.dim(residual, -1)), kDropout);
  return nn::LayerNorm(b, "LayerNorm", op::Add(b, x, residual));
}

TensorId SelfAttention(Builder& b, TensorId x, const Bert& model) {
  auto layer = b.Enter("self");
  auto heads = [&](const char* name) {
    return SplitHeads(b, nn::Linear(b, name, x, model.width), model.width / model.heads);
  };
  TensorId query = heads("query"), key = heads("key"), value = heads("value");
  return MergeHeads(b, op::Attention(b, query, key, value, {.dropout = kDropout}));
}

TensorId EncoderLayer(Builder& b, TensorId x, const Bert& model) {
  {
    auto attention = b.Enter("attention");
    x = Output(b, SelfAttention(b, x, model), x);
  }
  return Output(b, op::Gelu(b, nn::Linear(b, "intermediate.dense", x, 4 * model.width)), x);
}

TensorId Predictions(Builder& b, TensorId x, TensorId words) {
  auto layer = b.Enter("cls.predictions");
  TensorId bias = b.Parameter("bias", {kWords});
  x = op::Gelu(b, nn::Linear(b, "transform.dense", x, b.dim(x, -1)));
  x = nn::LayerNorm(b, "transform.LayerNorm", x);
  auto decoder = b.Enter("decoder");
  return op::Linear(b, x, words, bias);
}

TensorId Forward(Builder& b, const Sizes& sizes, const Bert& model) {
  auto [tokens, labels] = TokenInput(b, sizes);
  TensorId words = nn::EmbeddingWeight(b, "bert.embeddings.word_embeddings", kWords, model.width);
  TensorId x;
  {
    auto bert = b.Enter("bert");
    x = Embeddings(b, tokens, words, sizes, model);
    for (int i = 0; i < model.layers; ++i) {
      auto layer = b.EnterBlock("encoder.layer." + std::to_string(i));
      x = EncoderLayer(b, x, model);
    }
  }
  return TokenLoss(b, Predictions(b, x, words), labels);
}

Member BertMember(const std::string& name, const Bert& model) {
  return {name,
          "transformers BertForMaskedLM, 512 tokens",
          {.seq_len = 512},
          [=](Builder& b, const Sizes& sizes) { return Forward(b, sizes, model); },
          kPositions};
}

}  // namespace

Family Berts() {
  return {"language",
          {BertMember("bert-base", {.layers = 12, .width = 768, .heads = 12}),
           BertMember("bert-large", {.layers = 24, .width = 1024, .heads = 16})}};
}

}  // namespace ebbtide::model::zoo
