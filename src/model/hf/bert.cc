// BERT (Devlin et al. 2018) and RoBERTa (Liu et al. 2019): transformers' BertForMaskedLM and RobertaForMaskedLM.
#include "model/hf/encoders.h"
#include "model/hf/parts.h"
#include "model/zoo/language.h"

namespace ebbtide::model::hf {
namespace {

using zoo::Sizes;

// RoBERTa counts the tokens that are no padding.
TensorId CountedPlaces(Builder& b, TensorId tokens) {
  const Dims shape = b.shape(tokens);
  TensorId mask = b.CallOne("ne", {{"self", tokens}, {"other", 1.0}}, {shape, DType::kBool});
  mask = op::Cast(b, mask, DType::kInt32);
  TensorId counted = b.CallOne("cumsum", {{"self", mask}, {"dim", std::int64_t{1}}}, {shape, DType::kInt64});
  counted = op::WithScalar(b, "add", op::Cast(b, counted, DType::kInt32), 0);
  return op::WithScalar(b, "add", op::Cast(b, op::Mul(b, counted, mask), DType::kInt64), 1);
}

TensorId Embeddings(Builder& b, TensorId tokens, TensorId words, const Sizes& sizes, const Bert& model) {
  auto layer = b.Enter("embeddings");
  TensorId all_positions = b.Buffer("position_ids", {1, model.places}, DType::kInt64);
  TensorId all_types = b.Buffer("token_type_ids", {1, model.places}, DType::kInt64);
  TensorId positions = model.is_roberta ? CountedPlaces(b, tokens) : op::Slice(b, all_positions, 1, 0, sizes.seq_len);
  if (model.is_roberta) all_types = op::Expand(b, all_types, {sizes.batch, model.places});
  TensorId types = b.CallOne("gather", {{"self", all_types}, {"dim", std::int64_t{1}}, {"index", positions}},
                             {b.shape(positions), DType::kInt64});
  types = op::Expand(b, types, {sizes.batch, sizes.seq_len});
  TensorId x = zoo::Words(b, nn::EmbeddingOf(b, "word_embeddings", words, tokens));
  x = op::Add(b, x, nn::Embedding(b, "token_type_embeddings", types, model.types, model.width));
  x = op::Add(b, x, nn::Embedding(b, "position_embeddings", positions, model.places, model.width));
  return op::Dropout(b, nn::LayerNorm(b, "LayerNorm", x), model.dropout);
}

// Linear, dropout, sum with what went in, layer norm.
TensorId Output(Builder& b, TensorId x, TensorId residual, const Bert& model) {
  auto layer = b.Enter("output");
  x = op::Dropout(b, nn::Linear(b, "dense", x, b.dim(residual, -1)), model.dropout);
  return nn::LayerNorm(b, "LayerNorm", op::Add(b, x, residual));
}

TensorId SelfAttention(Builder& b, TensorId x, const Bert& model) {
  auto layer = b.Enter("self");
  auto heads = [&](const char* name) {
    return zoo::SplitHeads(b, nn::Linear(b, name, x, model.width), model.width / model.heads);
  };
  TensorId query = heads("query"), key = heads("key"), value = heads("value");
  return zoo::MergeHeads(b, op::Attention(b, query, key, value, {.dropout = model.attention_dropout}));
}

TensorId EncoderLayer(Builder& b, TensorId x, const Bert& model) {
  {
    auto attention = b.Enter("attention");
    x = Output(b, SelfAttention(b, x, model), x, model);
  }
  return Output(b, Activate(b, model.activation, nn::Linear(b, "intermediate.dense", x, model.hidden)), x, model);
}

TensorId Predictions(Builder& b, TensorId x, TensorId words, const Bert& model) {
  auto layer = b.Enter(model.is_roberta ? "lm_head" : "cls.predictions");
  TensorId bias = b.Parameter("bias", {model.words});
  x = nn::Linear(b, model.is_roberta ? "dense" : "transform.dense", x, b.dim(x, -1));
  x = model.is_roberta ? op::Gelu(b, x) : Activate(b, model.activation, x);
  x = nn::LayerNorm(b, model.is_roberta ? "layer_norm" : "transform.LayerNorm", x);
  auto decoder = b.Enter("decoder");
  return op::Linear(b, x, words, bias);
}

}  // namespace

TensorId RecordBert(Builder& b, const Bert& model, const Sizes& sizes) {
  auto [tokens, labels] = zoo::TokenInput(b, sizes);
  const std::string name = model.is_roberta ? "roberta" : "bert";
  TensorId words = nn::EmbeddingWeight(b, name + ".embeddings.word_embeddings", model.words, model.width);
  TensorId x;
  {
    auto encoder = b.Enter(name);
    x = Embeddings(b, tokens, words, sizes, model);
    for (std::int64_t i = 0; i < model.layers; ++i) {
      auto layer = b.EnterBlock("encoder.layer." + std::to_string(i));
      x = EncoderLayer(b, x, model);
    }
  }
  return zoo::TokenLoss(b, Predictions(b, x, words, model), labels);
}

}  // namespace ebbtide::model::hf
