// Projections to queries, keys and values, rotary positions, and the attention itself.
#include <cmath>

#include "model/hf/fused_lora.h"
#include "model/hf/kernels.h"
#include "model/hf/parts.h"
#include "model/zoo/language.h"

namespace ebbtide::model::hf {
namespace {

// Since when keys and values are handed over once for all query heads that share them.
constexpr LibraryVersion kFlashShares = {4, 48}, kSdpaShares = {4, 53};
// Before it every layer of mistral and its kin kept a table of all positions. 4.39 is known to, 4.43 not to.
constexpr LibraryVersion kTablesComputed = {4, 42};

// [batch, heads, length, width] each.
struct Heads {
  TensorId query, key, value;
};

TensorId AsHeads(Builder& b, TensorId x, std::int64_t width) { return zoo::SplitHeads(b, x, width); }

TensorId HalfTurned(Builder& b, TensorId x) {
  const std::int64_t width = b.dim(x, -1);
  TensorId first = op::Slice(b, x, -1, 0, width / 2), second = op::Slice(b, x, -1, width / 2, width);
  return op::Cat(b, {op::Unary(b, "neg", second), first}, -1);
}

// Both halves of a pair by the same angle: (a cos - b sin, b cos + a sin).
TensorId TurnedPair(Builder& b, TensorId first, TensorId second, const Rotary& rotary) {
  const auto mul = [&](TensorId x, TensorId y) { return op::Mul(b, x, y); };
  TensorId left = op::Binary(b, "sub", mul(first, rotary.cosine), mul(second, rotary.sine));
  TensorId right = op::Add(b, mul(second, rotary.cosine), mul(first, rotary.sine));
  return op::Cat(b, {left, right}, -1);
}

TensorId Turned(Builder& b, PositionKind kind, TensorId x, const Rotary& rotary) {
  const std::int64_t width = b.dim(x, -1);
  if (kind == PositionKind::kRotaryHalves) {
    const std::vector<TensorId> halves = op::Chunk(b, x, 2, -1);
    return TurnedPair(b, halves[0], halves[1], rotary);
  }
  if (kind == PositionKind::kRotaryPairs) {
    TensorId even = op::Slice(b, x, -1, 0, width, 2), odd = op::Slice(b, x, -1, 1, width, 2);
    return TurnedPair(b, even, odd, rotary);
  }
  if (kind == PositionKind::kRotaryComplex) {  // a complex number is two floats
    const DType dtype = b.at(x).dtype;
    Dims pairs = b.shape(x);
    pairs.back() /= 2;
    pairs.push_back(2);
    TensorId turned = op::Mul(b, op::Reshape(b, op::Cast(b, x, DType::kFloat32), pairs), rotary.cosine);
    return op::Cast(b, op::Flatten(b, turned, 3), dtype);
  }
  TensorId straight = op::Mul(b, x, rotary.cosine);
  return op::Add(b, straight, op::Mul(b, HalfTurned(b, x), rotary.sine));
}

// What is wider than the table keeps its rest as it is.
TensorId WithPositions(Builder& b, const Decoder& model, TensorId x, const Rotary& rotary) {
  const std::int64_t width = b.dim(x, -1);
  const bool is_fused = b.options().kernels != KernelSet::kPlain && model.positions == PositionKind::kRotary;
  if (is_fused && model.rotary_width >= width) return FusedRotary(b, x, rotary.cosine, rotary.sine);
  if (model.rotary_width >= width) {
    const TensorId turned = Turned(b, model.positions, x, rotary);
    return model.joins_rest ? op::Cat(b, {turned}, -1) : turned;
  }
  TensorId turned = op::Slice(b, x, -1, 0, model.rotary_width);
  TensorId rest = op::Slice(b, x, -1, model.rotary_width, width);
  return op::Cat(b, {Turned(b, model.positions, turned, rotary), rest}, -1);
}

// ---- Projections

Heads SeparateProjections(Builder& b, const Decoder& model, TensorId x) {
  const Names& names = model.names;
  const std::int64_t queries = model.heads * model.head_width, keys = model.key_heads * model.head_width;
  const std::initializer_list<FusedLayer> all = {{names.query, queries}, {names.key, keys}, {names.value, keys}};
  const std::vector<TensorId> fused =
      AreFused(b, all) ? FusedLinears(b, x, all, model.qkv_bias) : std::vector<TensorId>();
  const auto project = [&](std::size_t place, const char* norm) {
    const FusedLayer& layer = all.begin()[place];
    TensorId out = fused.empty() ? nn::Linear(b, layer.name, x, layer.features, model.qkv_bias) : fused[place];
    if (model.scaled_query && place == 0) out = op::WithScalar(b, "mul", out, 1);
    if (model.wide_norm && norm) out = Norm(b, model.norm, norm, out);
    if (model.clamp_qkv > 0) out = op::UnaryInPlaceKeepingInput(b, "hardtanh_", out);
    if (!norm || !model.head_norm) return AsHeads(b, out, model.head_width);
    out = op::Reshape(b, out, {b.dim(x, 0), b.dim(x, 1), layer.features / model.head_width, model.head_width});
    if (model.norm == NormKind::kRms) return op::Transpose(b, Norm(b, model.norm, norm, out), 1, 2);
    return Norm(b, model.norm, norm, op::Transpose(b, out, 1, 2));
  };
  Heads heads;
  heads.query = project(0, names.query_norm);
  heads.key = project(1, names.key_norm);
  heads.value = project(2, nullptr);
  return heads;
}

Heads ProjectionsByPart(Builder& b, const Decoder& model, TensorId x) {
  const std::int64_t queries = model.heads * model.head_width, keys = model.key_heads * model.head_width;
  TensorId all = Linear(b, model.names.fused, x, queries + 2 * keys, model.qkv_bias, model.conv1d);
  std::vector<TensorId> parts;
  if (model.mlp == MlpKind::kGatedFused) {  // phi3 takes slices
    parts = {op::Slice(b, all, -1, 0, queries), op::Slice(b, all, -1, queries, queries + keys),
             op::Slice(b, all, -1, queries + keys, queries + 2 * keys)};
  } else if (queries == keys) {
    parts = op::Chunk(b, all, 3, 2);
  } else {  // gpt_bigcode: keys and values of one head
    parts = op::Split(b, op::Unsqueeze(b, all, 1), {queries, keys, keys}, 3);
    const Dims rows = {b.dim(x, 0), b.dim(x, 1), -1, model.head_width};
    return {op::Transpose(b, op::Reshape(b, parts[0], rows), 1, 2), parts[1], parts[2]};
  }
  for (TensorId& part : parts) part = AsHeads(b, part, model.head_width);
  return {parts[0], parts[1], parts[2]};
}

Heads ProjectionsByHead(Builder& b, const Decoder& model, TensorId x) {
  TensorId all = Linear(b, model.names.fused, x, 3 * model.heads * model.head_width, model.qkv_bias, model.conv1d);
  const std::vector<TensorId> parts = op::Chunk(b, AsHeads(b, all, 3 * model.head_width), 3, -1);
  return {parts[0], parts[1], parts[2]};
}

// One head of an axis, as indexing by a list gives it: a copy.
TensorId Indexed(Builder& b, TensorId x, int axis) {
  Dims shape = b.shape(x);
  shape[axis] = 1;
  TensorId index = op::Fill(b, "lift_fresh_copy", {1}, DType::kInt64);
  return b.CallOne("index", {{"self", x}, {"indices", TensorList{{index}}}}, {shape, b.at(x).dtype});
}

// falcon: `group` queries, then their key and value.
Heads ProjectionsByGroup(Builder& b, const Decoder& model, TensorId x) {
  const std::int64_t batch = b.dim(x, 0), length = b.dim(x, 1), width = model.head_width;
  const std::int64_t group = model.heads / model.key_heads;
  TensorId all = Linear(b, model.names.fused, x, (model.heads + 2 * model.key_heads) * width, model.qkv_bias);
  const auto as_heads = [&](TensorId part) { return op::Transpose(b, part, 1, 2); };
  if (group == 1) {
    all = op::Reshape(b, all, {batch, length, model.heads, 3, width});
    return {as_heads(op::Select(b, all, 3, 0)), as_heads(op::Select(b, all, 3, 1)), as_heads(op::Select(b, all, 3, 2))};
  }
  if (model.key_heads == 1) {
    all = op::Reshape(b, all, {batch, length, group + 2, width});
    TensorId query = op::Slice(b, all, 2, 0, group), key = Indexed(b, all, 2), value = Indexed(b, all, 2);
    return {as_heads(query), as_heads(key), as_heads(value)};
  }
  all = op::Reshape(b, all, {batch, length, model.key_heads, group + 2, width});
  TensorId query = op::Slice(b, all, 3, 0, group), key = Indexed(b, all, 3), value = Indexed(b, all, 3);
  const Dims shape = b.shape(query);
  const auto every = [&](TensorId part) { return as_heads(op::Flatten(b, op::Expand(b, part, shape), 2, 3)); };
  query = as_heads(op::Flatten(b, query, 2, 3));
  key = every(key);
  return {query, key, every(value)};
}

Heads LatentProjections(Builder& b, const Decoder& model, TensorId x, const Rotary& rotary) {
  const Latent& latent = model.latent;
  const std::int64_t batch = b.dim(x, 0), length = b.dim(x, 1), width = latent.plain_width + latent.rotary_width;
  TensorId query = x;
  if (latent.query_rank > 0) {
    query = Norm(b, NormKind::kRms, "q_a_layernorm", nn::Linear(b, "q_a_proj", x, latent.query_rank, model.qkv_bias));
  }
  query = nn::Linear(b, latent.query_rank > 0 ? "q_b_proj" : "q_proj", query, model.heads * width, false);
  std::vector<TensorId> queries = op::Split(b, AsHeads(b, query, width), {latent.plain_width, latent.rotary_width}, -1);
  TensorId narrow = nn::Linear(b, "kv_a_proj_with_mqa", x, latent.key_rank + latent.rotary_width, model.qkv_bias);
  std::vector<TensorId> keys = op::Split(b, narrow, {latent.key_rank, latent.rotary_width}, -1);
  TensorId plain = op::Reshape(b, Norm(b, NormKind::kRms, "kv_a_layernorm", keys[0]), {batch, 1, length, -1});
  TensorId turned = op::Reshape(b, keys[1], {batch, 1, length, latent.rotary_width});
  queries[1] = Turned(b, model.positions, queries[1], rotary);
  turned = Turned(b, model.positions, turned, rotary);
  query = op::Cat(b, queries, -1);
  plain = nn::Linear(b, "kv_b_proj", plain, model.heads * (latent.plain_width + model.value_width), false);
  plain = op::Reshape(b, plain, {batch, length, -1, latent.plain_width + model.value_width});
  const std::vector<TensorId> parts =
      op::Split(b, op::Transpose(b, plain, 1, 2), {latent.plain_width, model.value_width}, -1);
  turned = op::Expand(b, turned, {-1, model.heads, -1, -1});
  return {query, op::Cat(b, {parts[0], turned}, -1), parts[1]};
}

// ---- Attention

// Every head of keys or values once for each query head that shares it.
TensorId RepeatHeads(Builder& b, TensorId x, std::int64_t times) {
  if (times == 1) return x;
  const Dims shape = b.shape(x);
  x = op::Expand(b, op::Unsqueeze(b, x, 2), {shape[0], shape[1], times, shape[2], shape[3]});
  return op::Reshape(b, x, {shape[0], shape[1] * times, shape[2], shape[3]});
}

// A further key that gets no value: its score is learnt.
TensorId SoftmaxWithSinks(Builder& b, TensorId scores) {
  const Dims shape = b.shape(scores);
  TensorId sinks = op::Reshape(b, b.Parameter("sinks", {shape[1]}), {1, shape[1], 1, 1});
  sinks = op::Expand(b, sinks, {shape[0], shape[1], shape[2], 1});
  TensorId all = op::Cat(b, {scores, sinks}, -1);
  Dims one = b.shape(all);
  one.back() = 1;
  TensorId largest = b.Call("max", {{"self", all}, {"dim", std::int64_t{-1}}, {"keepdim", true}},
                            {{one, b.at(all).dtype}, {one, DType::kInt64}})[0];
  all = op::Softmax(b, op::Binary(b, "sub", all, largest), -1);
  return op::Slice(b, all, -1, 0, shape[3]);
}

TensorId EagerAttention(Builder& b, const Decoder& model, const Heads& in, TensorId mask, double scale) {
  const std::int64_t times = b.dim(in.query, 1) / b.dim(in.key, 1);
  TensorId key = RepeatHeads(b, in.key, times), value = RepeatHeads(b, in.value, times);
  TensorId scores = op::WithScalar(b, "mul", op::Matmul(b, in.query, op::Transpose(b, key, 2, 3)), scale);
  scores = Capped(b, scores, model.score_cap);
  if (mask.valid()) scores = op::Add(b, scores, mask);
  if (model.sinks) {
    scores = SoftmaxWithSinks(b, scores);
  } else {
    scores = op::Softmax(b, op::Cast(b, scores, DType::kFloat32), -1);
  }
  scores = op::Dropout(b, op::Cast(b, scores, b.at(in.query).dtype), model.attention_dropout);
  return op::Matmul(b, scores, value);
}

TensorId FusedAttention(Builder& b, const Decoder& model, Heads in, TensorId mask, double scale) {
  const std::int64_t times = b.dim(in.query, 1) / b.dim(in.key, 1);
  const bool is_flash = b.options().attention == AttentionKernel::kFlash;
  const LibraryVersion version = b.options().transformers;
  // Kernels share heads only without a mask and where keys are as wide as values.
  const bool could = !mask.valid() && b.dim(in.key, -1) == b.dim(in.value, -1) && b.dim(in.key, -1) <= 256;
  const bool shares = is_flash ? !(model.repeats_keys && version < kFlashShares) : could && version >= kSdpaShares;
  if (times > 1 && !shares) in.key = RepeatHeads(b, in.key, times), in.value = RepeatHeads(b, in.value, times);
  return op::Attention(b, in.query, in.key, in.value,
                       {.mask = mask,
                        .causal = !mask.valid() && b.dim(in.query, 2) > 1,
                        .dropout = model.attention_dropout,
                        .scale = scale});
}

}  // namespace

Rotary RotaryTable(Builder& b, const Decoder& model, TensorId positions, DType dtype) {
  auto layer = b.Enter("rotary_emb");
  const std::int64_t width = model.rotary_width;
  TensorId frequency = b.Buffer("inv_freq", {width / 2});
  b.Buffer("original_inv_freq", {width / 2});
  TensorId angle = op::Cast(b, op::Unsqueeze(b, positions, 2), DType::kFloat32);
  angle = op::Mul(b, angle, frequency);
  if (model.positions == PositionKind::kRotaryComplex) {
    Dims pairs = b.shape(angle);
    pairs.push_back(2);
    TensorId ones = op::Unary(b, "ones_like", angle);
    TensorId table = b.CallOne("polar", {{"abs", ones}, {"angle", angle}}, {pairs, DType::kFloat32});
    table = op::Unsqueeze(b, op::WithScalar(b, "mul", table, 1), 1);
    return {table, table};
  }
  if (model.positions == PositionKind::kRotary) angle = op::Cat(b, {angle, angle}, -1);
  if (model.positions == PositionKind::kRotaryPairs) angle = op::Cat(b, {angle, angle}, -1);
  TensorId cosine = op::WithScalar(b, "mul", op::Unary(b, "cos", angle), 1);
  TensorId sine = op::WithScalar(b, "mul", op::Unary(b, "sin", angle), 1);
  cosine = op::Cast(b, cosine, dtype);
  return {cosine, op::Cast(b, sine, dtype)};
}

TensorId SelfAttention(Builder& b, const Decoder& model, TensorId x, const Rotary& table, TensorId mask) {
  Rotary rotary = table;
  if (model.positions == PositionKind::kRotaryPairs) {
    const std::int64_t half = model.rotary_width / 2;
    rotary.cosine = op::Slice(b, table.cosine, -1, 0, half);
    rotary.sine = op::Slice(b, table.sine, -1, 0, half);
  }
  if (rotary.cosine.valid() && model.positions != PositionKind::kRotaryComplex) {
    rotary.cosine = op::Unsqueeze(b, rotary.cosine, 1);
    rotary.sine = op::Unsqueeze(b, rotary.sine, 1);
  }
  if (model.repeats_keys && b.options().transformers < kTablesComputed) {
    const DType dtype = b.options().dtype.value_or(DType::kFloat32);
    for (const char* name : {"rotary_emb.cos_cached", "rotary_emb.sin_cached"}) {
      b.Buffer(name, {model.table_places, model.rotary_width}, dtype);
    }
  }
  Heads heads;
  switch (model.projections) {
    case ProjectionKind::kSeparate: heads = SeparateProjections(b, model, x); break;
    case ProjectionKind::kByPart: heads = ProjectionsByPart(b, model, x); break;
    case ProjectionKind::kByHead: heads = ProjectionsByHead(b, model, x); break;
    case ProjectionKind::kByGroup: heads = ProjectionsByGroup(b, model, x); break;
    case ProjectionKind::kLatent: heads = LatentProjections(b, model, x, rotary); break;
  }
  if (rotary.cosine.valid() && model.projections != ProjectionKind::kLatent) {
    heads.query = WithPositions(b, model, heads.query, rotary);
    heads.key = WithPositions(b, model, heads.key, rotary);
  }
  const double scale = 1 / std::sqrt(static_cast<double>(b.dim(heads.query, -1)));
  const bool eager = model.eager_only || b.options().attention == AttentionKernel::kEager;
  TensorId out = eager ? EagerAttention(b, model, heads, mask, scale) : FusedAttention(b, model, heads, mask, scale);
  out = zoo::MergeHeads(b, out);
  if (AreFused(b, {{model.names.out, model.width}})) {
    return FusedLinears(b, out, {{model.names.out, model.width}}, model.out_bias)[0];
  }
  return Linear(b, model.names.out, out, model.width, model.out_bias, model.conv1d);
}

}  // namespace ebbtide::model::hf
