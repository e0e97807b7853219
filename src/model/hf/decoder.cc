// Embedding, blocks, last norm and loss, put together as a Decoder says.
#include "model/hf/decoder.h"

#include <algorithm>

#include "model/hf/parts.h"
#include "model/zoo/language.h"

namespace ebbtide::model::hf {
namespace {

struct Shared {
  std::vector<Rotary> rotary;    // one per table
  TensorId mask, windowed_mask;  // invalid: the kernel hides what comes later itself
};

// Of the words' embedding and of the head: peft's preparation leaves them in float32, which trl takes back for bfloat16
// alone.
TensorId WordsWeight(Builder& b, const char* name, const Dims& shape) {
  auto layer = b.Enter(name);
  const bool widens = b.options().kbit_prepare && b.options().dtype == DType::kFloat16;
  return widens ? b.Parameter("weight", shape, DType::kFloat32) : b.Parameter("weight", shape);
}

TensorId Embed(Builder& b, const Decoder& model, TensorId words, TensorId tokens) {
  auto layer = b.Enter(model.names.words);
  TensorId x = op::Embedding(b, words, tokens);
  if (model.scaled_words) x = op::Mul(b, x, b.Buffer("embed_scale", {}));
  return zoo::Words(b, x);
}

// OPT counts positions from a mask of ones, in floats, and looks them up some rows further on.
TensorId CountedPositions(Builder& b, const Decoder& model, std::int64_t batch, std::int64_t length) {
  TensorId ones = op::Fill(b, "ones", {batch, length});
  TensorId places = op::Mul(b, op::Unary(b, "cumsum", ones, {{"dim", std::int64_t{1}}}), ones);
  places = op::Cast(b, op::WithScalar(b, "sub", places, 1), DType::kInt64);
  return op::WithScalar(b, "add", places, static_cast<double>(model.spare_places));
}

TensorId AddPositions(Builder& b, const Decoder& model, TensorId x, TensorId places, std::int64_t length) {
  if (model.positions != PositionKind::kLearnt) return x;
  if (model.kept_mask) b.Buffer("bias", {model.places, model.places}, DType::kBool);
  if (!places.valid()) {
    const std::int64_t batch = b.dim(x, 0);
    places = model.spare_places > 0 ? CountedPositions(b, model, batch, length) : zoo::Positions(b, length);
  }
  TensorId learnt = nn::Embedding(b, model.names.positions, places, model.places + model.spare_places, model.width);
  if (model.word_width > 0) x = nn::Linear(b, "project_in", x, model.width, false);
  return op::Add(b, x, learnt);
}

// `positions`: those of packed texts; invalid where each row is one text.
Shared MakeShared(Builder& b, const Decoder& model, TensorId x, TensorId positions, std::int64_t length) {
  const std::int64_t batch = b.dim(x, 0);
  Shared shared;
  const bool eager = model.eager_only || b.options().attention == AttentionKernel::kEager;
  bool all = true, any = false;
  for (std::int64_t i = 0; i < model.layers; ++i) {
    (model.HasWindow(i) ? any : all) = model.HasWindow(i);
  }
  const DType dtype = b.at(x).dtype;
  if (eager) {
    if (!all) shared.mask = zoo::CausalMask(b, batch, length, 0, dtype);
    if (any) shared.windowed_mask = zoo::CausalMask(b, batch, length, model.window, dtype);
  } else if (b.options().attention == AttentionKernel::kSdpa) {
    // Texts in one row must not see each other, which takes a mask.
    if (positions.valid() && !all) shared.mask = zoo::VisibleKeys(b, batch, length);
    if (any && (positions.valid() || length >= model.window)) {
      shared.windowed_mask = zoo::VisibleKeys(b, batch, length, model.window);
    }
  }
  const bool is_rotary = model.positions != PositionKind::kLearnt && model.positions != PositionKind::kNone;
  if (!is_rotary) return shared;
  if (!positions.valid()) positions = zoo::Positions(b, length);
  for (int i = 0; i < model.rotary_tables; ++i) shared.rotary.push_back(RotaryTable(b, model, positions, dtype));
  return shared;
}

TensorId Times(Builder& b, const Decoder& model, TensorId x) {
  return model.multiplied ? op::WithScalar(b, "mul", x, 1) : x;
}

TensorId Block(Builder& b, const Decoder& model, TensorId x, const Shared& shared, std::int64_t index) {
  const Names& names = model.names;
  const bool windowed = model.HasWindow(index);
  const auto norm = [&](const char* name, TensorId in) { return Norm(b, model.norm, name, in); };
  const auto attention = [&](TensorId in) {
    auto layer = b.Enter(names.attention);
    const Rotary rotary = shared.rotary.empty() ? Rotary{} : shared.rotary[windowed ? shared.rotary.size() - 1 : 0];
    return SelfAttention(b, model, in, rotary, windowed ? shared.windowed_mask : shared.mask);
  };
  const auto mlp = [&](TensorId in) {
    auto layer = b.Enter(model.HasExperts(index) ? names.experts : names.mlp);
    return model.HasExperts(index) ? MixtureOfExperts(b, model, in) : Mlp(b, model, in, model.hidden);
  };
  const auto drop = [&](TensorId in) { return op::Dropout(b, in, model.residual_dropout); };
  switch (model.block) {
    case BlockKind::kPreNorm: {
      TensorId out = drop(attention(norm(names.attention_norm, x)));
      x = op::Add(b, x, Times(b, model, out));
      Dims shape = b.shape(x);
      if (model.flat_mlp) x = op::Reshape(b, x, {-1, model.width});
      x = op::Add(b, x, Times(b, model, drop(mlp(norm(names.mlp_norm, x)))));
      return op::Reshape(b, x, shape);
    }
    case BlockKind::kPostNorm:
      x = op::Add(b, x, norm(names.attention_norm_after, attention(x)));
      return op::Add(b, x, norm(names.mlp_norm_after, mlp(x)));
    case BlockKind::kSandwich:
      x = op::Add(b, x, norm(names.attention_norm_after, attention(norm(names.attention_norm, x))));
      return op::Add(b, x, norm(names.mlp_norm_after, mlp(norm(names.mlp_norm, x))));
    case BlockKind::kNormAfterSum: {
      x = norm(names.attention_norm, op::Add(b, x, drop(attention(x))));
      const Dims shape = b.shape(x);
      if (model.flat_mlp) x = op::Reshape(b, x, {-1, model.width});
      x = op::Reshape(b, op::Add(b, x, drop(mlp(x))), shape);
      return norm(names.mlp_norm, x);
    }
    case BlockKind::kParallel: {
      TensorId in = norm(names.attention_norm, x);
      TensorId out = drop(attention(in)), dense = drop(mlp(in));
      if (model.sum_in_place) return op::Add(b, x, op::BinaryInPlace(b, "add_", dense, out));
      return op::Add(b, op::Add(b, out, dense), x);
    }
    case BlockKind::kParallelTwoNorms: {
      if (model.sum_in_place) {  // falcon makes both norms first
        TensorId first = norm(names.attention_norm, x), second = norm(names.mlp_norm, x);
        TensorId out = attention(first);
        return op::Add(b, x, op::BinaryInPlace(b, "add_", mlp(second), out));
      }
      TensorId out = drop(attention(norm(names.attention_norm, x)));
      TensorId dense = drop(mlp(norm(names.mlp_norm, x)));
      return op::Add(b, op::Add(b, dense, out), x);
    }
  }
  return x;
}

// The layer that gives the scores, and the loss behind it.
TensorId HeadAndLoss(Builder& b, const Decoder& model, TensorId x, TensorId words, TensorId labels) {
  if (b.options().loss != LossKernel::kPlain && !b.inference()) {
    auto layer = b.Enter(model.names.head);
    const Dims shape = {model.words, b.dim(x, -1)};
    return LanguageLossOfStates(b, x, model.tied ? words : b.Parameter("weight", shape), labels);
  }
  TensorId logits;
  if (model.tied || b.options().kbit_prepare) {
    const Dims shape = {model.words, b.dim(x, -1)};
    const TensorId weight = model.tied ? words : WordsWeight(b, model.names.head, shape);
    auto layer = b.Enter(model.names.head);
    logits = op::Linear(b, x, weight, model.head_bias ? b.Parameter("bias", {model.words}) : TensorId());
  } else {
    logits = nn::Linear(b, model.names.head, x, model.words, model.head_bias);
  }
  if (model.multiplied) logits = op::WithScalar(b, "div", logits, 1);
  return LanguageLoss(b, x, Capped(b, logits, model.logit_cap), labels);
}

}  // namespace

bool Decoder::HasExperts(std::int64_t layer) const {
  if (experts.count == 0 || layer < experts.first_layer) return false;
  return (layer + 1) % experts.every == 0 && std::ranges::count(experts.dense_layers, layer) == 0;
}

bool Decoder::HasWindow(std::int64_t layer) const {
  if (window == 0) return false;
  return windowed.empty() || windowed[static_cast<std::size_t>(layer)];
}

TensorId RecordDecoder(Builder& b, const Decoder& model, std::int64_t batch, std::int64_t length) {
  auto [tokens, labels] = zoo::TokenInput(b, {.batch = batch, .seq_len = length});
  // What collators make beside tokens and labels: positions of packed texts, or a mask of ones that nothing reads.
  const bool packed = b.options().packing;
  const TensorId extra = b.Input(packed ? "position_ids" : "attention_mask", {batch, length}, DType::kInt64);
  const TensorId places = packed ? extra : TensorId();
  TensorId words, x;
  {
    auto decoder = b.Enter(model.names.model);
    words = WordsWeight(b, model.names.words, {model.words, model.word_width > 0 ? model.word_width : model.width});
    x = Times(b, model, Embed(b, model, words, tokens));
    x = AddPositions(b, model, x, places, length);
    x = op::Dropout(b, x, model.embedding_dropout);
    const Shared shared = MakeShared(b, model, x, places, length);
    for (std::int64_t i = 0; i < model.layers; ++i) {
      auto layer = b.EnterBlock(fmt::format("{}.{}", model.names.blocks, i));
      x = Block(b, model, x, shared, i);
    }
    if (!model.no_last_norm) x = Norm(b, model.norm, model.names.last_norm, x);
    if (model.word_width > 0) x = nn::Linear(b, "project_out", x, model.word_width, false);
  }
  return HeadAndLoss(b, model, x, words, labels);
}

}  // namespace ebbtide::model::hf
