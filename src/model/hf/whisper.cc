// Whisper (Radford et al. 2022), transformers' WhisperForConditionalGeneration.
#include "model/hf/encoders.h"
#include "model/hf/parts.h"
#include "model/zoo/language.h"

namespace ebbtide::model::hf {
namespace {

using zoo::Sizes;

TensorId Attention(Builder& b, const Whisper& model, const char* name, std::int64_t heads, TensorId x, TensorId seen,
                   bool causal) {
  auto layer = b.Enter(name);
  const std::int64_t head_width = model.width / heads;
  const auto as_heads = [&](TensorId projected) {
    return op::Contiguous(b, zoo::SplitHeads(b, projected, head_width));
  };
  TensorId query = as_heads(op::WithScalar(b, "mul", nn::Linear(b, "q_proj", x, model.width), 1));
  TensorId key = as_heads(nn::Linear(b, "k_proj", seen, model.width, false));
  TensorId value = as_heads(nn::Linear(b, "v_proj", seen, model.width));
  TensorId out = op::Attention(b, query, key, value,
                               {.causal = causal && b.dim(x, 1) > 1, .dropout = model.attention_dropout, .scale = 1.0});
  return nn::Linear(b, "out_proj", zoo::MergeHeads(b, out), model.width);
}

TensorId Mlp(Builder& b, const Whisper& model, TensorId x, std::int64_t hidden) {
  TensorId inner = Activate(b, model.activation, nn::Linear(b, "fc1", nn::LayerNorm(b, "final_layer_norm", x), hidden));
  inner = op::Dropout(b, inner, model.activation_dropout);
  return op::Add(b, x, op::Dropout(b, nn::Linear(b, "fc2", inner, model.width), model.dropout));
}

TensorId Conv1d(Builder& b, const char* name, TensorId x, std::int64_t channels, std::int64_t stride) {
  auto layer = b.Enter(name);
  TensorId weight = b.Parameter("weight", {channels, b.dim(x, 1), 3});
  TensorId bias = b.Parameter("bias", {channels});
  return op::Gelu(b, op::Convolution(b, x, weight, bias, {.stride = {stride}, .padding = {1}, .dilation = {1}}));
}

TensorId Encode(Builder& b, const Whisper& model, TensorId features) {
  auto encoder = b.Enter("model.encoder");
  TensorId x = Conv1d(b, "conv2", Conv1d(b, "conv1", features, model.width, 1), model.width, 2);
  x = op::Permute(b, x, {0, 2, 1});
  {
    auto layer = b.Enter("embed_positions");
    const DType dtype = b.options().dtype.value_or(DType::kFloat32);
    TensorId places = b.FrozenParameter("weight", {model.sources, model.width}, dtype);
    x = op::Add(b, x, op::Embedding(b, places, op::Arange(b, model.sources)));
  }
  x = op::Dropout(b, x, model.dropout);
  for (std::int64_t i = 0; i < model.encoder_layers; ++i) {
    auto layer = b.EnterBlock("layers." + std::to_string(i));
    TensorId in = nn::LayerNorm(b, "self_attn_layer_norm", x);
    x = op::Add(b, x,
                op::Dropout(b, Attention(b, model, "self_attn", model.encoder_heads, in, in, false), model.dropout));
    x = Mlp(b, model, x, model.encoder_hidden);
  }
  return nn::LayerNorm(b, "layer_norm", x);
}

TensorId Decode(Builder& b, const Whisper& model, TensorId words, TensorId tokens, TensorId encoded) {
  auto decoder = b.Enter("model.decoder");
  TensorId x = zoo::Words(b, nn::EmbeddingOf(b, "embed_tokens", words, tokens));
  {
    auto layer = b.Enter("embed_positions");
    TensorId places = b.Parameter("weight", {model.targets, model.width});
    TensorId ids = op::Unsqueeze(b, op::WithScalar(b, "add", op::Arange(b, b.dim(tokens, 1)), 0), 0);
    const Dims shape = {1, b.dim(tokens, 1), model.width};
    x = op::Add(b, x,
                b.CallOne("index", {{"self", places}, {"indices", TensorList{{ids}}}}, {shape, b.at(places).dtype}));
  }
  x = op::Dropout(b, x, model.dropout);
  for (std::int64_t i = 0; i < model.decoder_layers; ++i) {
    auto layer = b.EnterBlock("layers." + std::to_string(i));
    TensorId in = nn::LayerNorm(b, "self_attn_layer_norm", x);
    x = op::Add(b, x,
                op::Dropout(b, Attention(b, model, "self_attn", model.decoder_heads, in, in, true), model.dropout));
    in = nn::LayerNorm(b, "encoder_attn_layer_norm", x);
    x = op::Add(
        b, x,
        op::Dropout(b, Attention(b, model, "encoder_attn", model.decoder_heads, in, encoded, false), model.dropout));
    x = Mlp(b, model, x, model.decoder_hidden);
  }
  return nn::LayerNorm(b, "layer_norm", x);
}

// The labels one place later, behind a start token.
TensorId ShiftRight(Builder& b, TensorId labels) {
  TensorId shifted = b.CallOne("new_zeros", {{"self", labels}}, {b.shape(labels), DType::kInt64});
  const std::int64_t length = b.dim(labels, 1);
  TensorId from = op::Clone(b, op::Slice(b, labels, 1, 0, length - 1));
  b.InPlace("copy_", op::Slice(b, shifted, 1, 1, length), {{"src", from}});
  b.InPlace("fill_", op::Select(b, shifted, 1, 0), {{"value", std::int64_t{0}}});
  TensorId ignored = b.CallOne("eq", {{"self", shifted}, {"other", -100.0}}, {b.shape(shifted), DType::kBool});
  return b.InPlace("masked_fill_", shifted, {{"mask", ignored}, {"value", std::int64_t{0}}});
}

}  // namespace

TensorId RecordWhisper(Builder& b, const Whisper& model, const Sizes& sizes) {
  b.graph().loss_in_model = true;
  const DType dtype = b.options().dtype.value_or(DType::kFloat32);
  TensorId features = b.Input("input_features", {sizes.batch, model.mels, 2 * model.sources}, dtype);
  TensorId labels = b.Label("labels", {sizes.batch, sizes.seq_len});
  TensorId tokens =
      b.inference() ? b.Input("decoder_input_ids", {sizes.batch, sizes.seq_len}, DType::kInt64) : ShiftRight(b, labels);
  TensorId encoded = Encode(b, model, features);
  TensorId words;
  {
    auto decoder = b.Enter("model.decoder");
    words = nn::EmbeddingWeight(b, "embed_tokens", model.words, model.width);
  }
  TensorId x = Decode(b, model, words, tokens, encoded);
  auto head = b.Enter("proj_out");
  TensorId logits = op::Linear(b, x, words);
  return zoo::TokenLoss(b, logits, labels);
}

}  // namespace ebbtide::model::hf
