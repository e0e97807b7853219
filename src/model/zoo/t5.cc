// T5 (Raffel et al. 2020), transformers' T5ForConditionalGeneration: encoder and decoder see as many tokens each.
#include <cmath>

#include "model/zoo/language.h"

namespace ebbtide::model::zoo {

namespace {

constexpr std::int64_t kWords = 32128, kHeadWidth = 64, kBuckets = 32;
constexpr double kFarthest = 128;  // distances beyond share a bucket
constexpr double kDropout = 0.1;

struct T5 {
  int layers;  // of the encoder, and of the decoder
  std::int64_t width;
  std::int64_t hidden;
  std::int64_t heads;
};

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
TensorId DistanceBuckets(Builder& b, std::int64_t length, bool both_sides) {
  auto scalar = [&](const char* kind, TensorId x, double number) { return op::WithScalar(b, kind, x, number); };
  TensorId queries = scalar("add", op::Unsqueeze(b, op::Arange(b, length), 1), 0);
  TensorId distance = op::Binary(b, "sub", op::Unsqueeze(b, op::Arange(b, length), 0), queries);
  double buckets = kBuckets;
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
  far = scalar("mul", scalar("div", far, std::log(kFarthest / exact)), buckets - exact);
  far = scalar("add", op::Cast(b, far, DType::kInt64), exact);
  far = op::Binary(b, "minimum", far, op::Unary(b, "full_like", far));
  TensorId bucket = op::Where(b, is_near, distance, far);
  return both_sides ? op::BinaryInPlace(b, "add_", side, bucket) : scalar("add", bucket, 0);
}

TensorId LearntBias(Builder& b, std::int64_t length, std::int64_t heads, bool both_sides) {
  TensorId buckets = DistanceBuckets(b, length, both_sides);
  TensorId bias = nn::Embedding(b, "relative_attention_bias", buckets, kBuckets, heads);
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
    return SplitHeads(b, nn::Linear(b, name, from, model.heads * kHeadWidth, false), kHeadWidth);
  };
  TensorId looked_at = cross ? stack.encoded : x;
  TensorId query = heads("q", x), key = heads("k", looked_at), value = heads("v", looked_at);
  std::int64_t length = b.dim(x, 1);
  TensorId& bias = cross ? stack.cross_bias : stack.own_bias;
  if (!bias.valid()) {
    bias = cross ? op::Fill(b, "zeros", {1, model.heads, length, b.dim(key, 2)})
                 : LearntBias(b, length, model.heads, !stack.is_decoder);
  }
  TensorId mask = stack.is_decoder && !cross && length > 1 ? HideLater(b, bias) : bias;
  mask = op::Contiguous(b, mask);
  TensorId out = op::Attention(b, query, key, value, {.mask = mask, .dropout = kDropout, .scale = 1.0});
  return nn::Linear(b, "o", MergeHeads(b, out), model.width, false);
}

TensorId FeedForward(Builder& b, TensorId x, const T5& model) {
  auto layer = b.Enter("DenseReluDense");
  x = op::Dropout(b, op::Relu(b, nn::Linear(b, "wi", x, model.hidden, false)), kDropout);
  return nn::Linear(b, "wo", op::Cast(b, x, DType::kFloat32), model.width, false);  // in the type of its weight
}

TensorId Block(Builder& b, TensorId x, const T5& model, Stack& stack) {
  int count = 0;
  auto residual = [&](auto part) {
    auto layer = b.Enter("layer." + std::to_string(count++));
    x = op::Add(b, x, op::Dropout(b, part(RmsNorm(b, "layer_norm", x)), kDropout));
  };
  residual([&](TensorId in) { return Attention(b, in, model, stack, false); });
  if (stack.is_decoder) residual([&](TensorId in) { return Attention(b, in, model, stack, true); });
  residual([&](TensorId in) { return FeedForward(b, in, model); });
  return x;
}

TensorId RunStack(Builder& b, TensorId tokens, TensorId words, const T5& model, Stack stack) {
  auto layer = b.Enter(stack.is_decoder ? "decoder" : "encoder");
  TensorId x = op::Dropout(b, Words(b, nn::EmbeddingOf(b, "embed_tokens", words, tokens)), kDropout);
  for (int i = 0; i < model.layers; ++i) {
    auto block = b.EnterBlock("block." + std::to_string(i));
    x = Block(b, x, model, stack);
  }
  return op::Dropout(b, RmsNorm(b, "final_layer_norm", x), kDropout);
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

TensorId Forward(Builder& b, const Sizes& sizes, const T5& model) {
  auto [tokens, labels] = TokenInput(b, sizes);
  TensorId words = nn::EmbeddingWeight(b, "shared", kWords, model.width);
  TensorId encoded = RunStack(b, tokens, words, model, {.is_decoder = false});
  TensorId decoded =
      b.inference() ? b.Input("decoder_input_ids", {sizes.batch, sizes.seq_len}, DType::kInt64) : ShiftRight(b, labels);
  TensorId x = RunStack(b, decoded, words, model, {.is_decoder = true, .encoded = encoded});
  x = op::WithScalar(b, "mul", x, 1 / std::sqrt(static_cast<double>(model.width)));
  return TokenLoss(b, TiedScores(b, x, words), labels);
}

Member T5Member(const std::string& name, const T5& model) {
  return {name,
          "transformers T5ForConditionalGeneration, 128 tokens in and out",
          {.seq_len = 128},
          [=](Builder& b, const Sizes& sizes) { return Forward(b, sizes, model); }};
}

}  // namespace

Family T5s() {
  return {"language",
          {T5Member("t5-small", {.layers = 6, .width = 512, .hidden = 2048, .heads = 8}),
           T5Member("t5-base", {.layers = 12, .width = 768, .hidden = 3072, .heads = 12})}};
}

}  // namespace ebbtide::model::zoo
