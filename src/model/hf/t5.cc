// T5 (Raffel et al. 2020), transformers' T5ForConditionalGeneration: encoder and decoder see as many tokens each.
#include <cmath>

#include "model/hf/encoders.h"
#include "model/hf/parts.h"
#include "model/zoo/language.h"

namespace ebbtide::model::hf {

namespace {

using zoo::Sizes;

// Encoder or decoder, as far as its layers differ.
struct Stack {
  bool is_decoder;
  TensorId encoded = {};   // what the decoder looks at
  TensorId own_bias = {};  // of self-attention, made by the first layer
  TensorId cross_bias = {};
};

TensorId CompareWith(Builder& b, const char* kind, TensorId x, double number) {
  return b.CallOne(kind, {{"self", x}, {"other", number}}, {b.shape(x), DType::kBool});
}

// The bucket of every distance between two places, [length, length]: exact when near, logarithmic further off. The
// decoder, which looks back only, has all buckets for that side.
TensorId DistanceBuckets(Builder& b, const T5& model, std::int64_t length, bool both_sides) {
  auto scalar = [&](const char* kind, TensorId x, double number) { return op::WithScalar(b, kind, x, number); };
  TensorId queries = scalar("add", op::Unsqueeze(b, op::Arange(b, length), 1), 0);
  TensorId distance = op::Binary(b, "sub", op::Unsqueeze(b, op::Arange(b, length), 0), queries);
  double buckets = static_cast<double>(model.buckets);
  TensorId side;
  if (both_sides) {
    buckets /= 2;
    side = scalar("mul", op::Cast(b, CompareWith(b, "gt", distance, 0), DType::kInt64), buckets);
    side = scalar("add", side, 0);
    distance = op::Unary(b, "abs", distance);
  } else {
    TensorId zeros = op::Unary(b, "zeros_like", distance);
    distance = op::Unary(b, "neg", op::Binary(b, "minimum", distance, zeros));
  }
  double exact = buckets / 2;
  TensorId is_near = CompareWith(b, "lt", distance, exact);
  TensorId far = op::Unary(b, "log", scalar("div", op::Cast(b, distance, DType::kFloat32), exact));
  far = scalar("mul", scalar("div", far, std::log(model.farthest / exact)), buckets - exact);
  far = scalar("add", op::Cast(b, far, DType::kInt64), exact);
  far = op::Binary(b, "minimum", far, op::Unary(b, "full_like", far));
  TensorId bucket = op::Where(b, is_near, distance, far);
  return both_sides ? op::BinaryInPlace(b, "add_", side, bucket) : scalar("add", bucket, 0);
}

TensorId LearntBias(Builder& b, const T5& model, std::int64_t length, bool both_sides) {
  TensorId buckets = DistanceBuckets(b, model, length, both_sides);
  TensorId bias = nn::Embedding(b, "relative_attention_bias", buckets, model.buckets, model.heads);
  return op::Unsqueeze(b, op::Permute(b, bias, {2, 0, 1}), 0);
}

// The bias of every layer of the decoder hides what comes later.
TensorId HideLater(Builder& b, TensorId bias) {
  std::int64_t length = b.dim(bias, 2);
  TensorId queries = op::Unsqueeze(b, op::Arange(b, length), 1);
  TensorId visible = op::Compare(b, "ge", queries, op::Unsqueeze(b, op::Arange(b, length), 0));
  visible = op::Reshape(b, visible, {1, 1, length, length});
  return op::Where(b, visible, bias, op::Fill(b, "scalar_tensor", {}));
}

TensorId Attention(Builder& b, TensorId x, const T5& model, Stack& stack, bool cross) {
  auto layer = b.Enter(cross ? "EncDecAttention" : "SelfAttention");
  auto heads = [&](const char* name, TensorId from) {
    return zoo::SplitHeads(b, nn::Linear(b, name, from, model.heads * model.head_width, false), model.head_width);
  };
  TensorId looked_at = cross ? stack.encoded : x;
  TensorId query = heads("q", x), key = heads("k", looked_at), value = heads("v", looked_at);
  std::int64_t length = b.dim(x, 1);
  TensorId& bias = cross ? stack.cross_bias : stack.own_bias;
  if (!bias.valid()) {
    bias = cross ? op::Fill(b, "zeros", {1, model.heads, length, b.dim(key, 2)})
                 : LearntBias(b, model, length, !stack.is_decoder);
  }
  TensorId mask = stack.is_decoder && !cross && length > 1 ? HideLater(b, bias) : bias;
  mask = op::Contiguous(b, mask);
  TensorId out = op::Attention(b, query, key, value, {.mask = mask, .dropout = model.dropout, .scale = 1.0});
  return nn::Linear(b, "o", zoo::MergeHeads(b, out), model.width, false);
}

TensorId FeedForward(Builder& b, TensorId x, const T5& model) {
  auto layer = b.Enter("DenseReluDense");
  if (model.gated) {
    TensorId gate = Activate(b, model.activation, nn::Linear(b, "wi_0", x, model.hidden, false));
    x = op::Mul(b, gate, nn::Linear(b, "wi_1", x, model.hidden, false));
  } else {
    x = Activate(b, model.activation, nn::Linear(b, "wi", x, model.hidden, false));
  }
  x = op::Dropout(b, x, model.dropout);
  const DType dtype = b.options().dtype.value_or(DType::kFloat32);
  return nn::Linear(b, "wo", op::Cast(b, x, dtype), model.width, false);  // in the type of its weight
}

TensorId Block(Builder& b, TensorId x, const T5& model, Stack& stack) {
  int count = 0;
  auto residual = [&](auto part) {
    auto layer = b.Enter("layer." + std::to_string(count++));
    x = op::Add(b, x, op::Dropout(b, part(zoo::RmsNorm(b, "layer_norm", x)), model.dropout));
  };
  residual([&](TensorId in) { return Attention(b, in, model, stack, false); });
  if (stack.is_decoder) residual([&](TensorId in) { return Attention(b, in, model, stack, true); });
  residual([&](TensorId in) { return FeedForward(b, in, model); });
  return x;
}

TensorId RunStack(Builder& b, TensorId tokens, TensorId words, const T5& model, Stack stack) {
  auto layer = b.Enter(stack.is_decoder ? "decoder" : "encoder");
  TensorId x = op::Dropout(b, zoo::Words(b, nn::EmbeddingOf(b, "embed_tokens", words, tokens)), model.dropout);
  const std::int64_t layers = stack.is_decoder ? model.decoder_layers : model.layers;
  for (std::int64_t i = 0; i < layers; ++i) {
    auto block = b.EnterBlock("block." + std::to_string(i));
    x = Block(b, x, model, stack);
  }
  return op::Dropout(b, zoo::RmsNorm(b, "final_layer_norm", x), model.dropout);
}

// The decoder's input: the labels one place later, behind a start token, padding where a label counts for nothing.
TensorId ShiftRight(Builder& b, TensorId labels) {
  TensorId shifted = b.CallOne("new_zeros", {{"self", labels}}, {b.shape(labels), DType::kInt64});
  std::int64_t length = b.dim(labels, 1);
  TensorId from = op::Clone(b, op::Slice(b, labels, 1, 0, length - 1));
  b.InPlace("copy_", op::Slice(b, shifted, 1, 1, length), {{"src", from}});
  b.InPlace("fill_", op::Select(b, shifted, 1, 0), {{"value", std::int64_t{0}}});
  TensorId ignored = CompareWith(b, "eq", shifted, -100);
  return b.InPlace("masked_fill_", shifted, {{"mask", ignored}, {"value", std::int64_t{0}}});
}

}  // namespace

TensorId RecordT5(Builder& b, const T5& model, const Sizes& sizes) {
  auto [tokens, labels] = zoo::TokenInput(b, sizes);
  TensorId words = nn::EmbeddingWeight(b, "shared", model.words, model.width);
  TensorId encoded = RunStack(b, tokens, words, model, {.is_decoder = false});
  TensorId decoded =
      b.inference() ? b.Input("decoder_input_ids", {sizes.batch, sizes.seq_len}, DType::kInt64) : ShiftRight(b, labels);
  TensorId x = RunStack(b, decoded, words, model, {.is_decoder = true, .encoded = encoded});
  if (model.scaled) x = op::WithScalar(b, "mul", x, 1 / std::sqrt(static_cast<double>(model.width)));
  return zoo::TokenLoss(b, zoo::TiedScores(b, x, words), labels);
}

}  // namespace ebbtide::model::hf
