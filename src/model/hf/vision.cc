// ViT (Dosovitskiy et al. 2020) and CLIP (Radford et al. 2021): transformers' ViTForImageClassification and CLIPModel.
#include <cmath>

#include "model/hf/encoders.h"
#include "model/hf/parts.h"
#include "model/zoo/language.h"

namespace ebbtide::model::hf {
namespace {

using zoo::Sizes;

struct TowerNames {
  const char* layers;
  const char* attention;
  const char* out;
  const char* first_norm;
  const char* second_norm;
};
constexpr TowerNames kVit = {"layers", "attention", "o_proj", "layernorm_before", "layernorm_after"};
constexpr TowerNames kClip = {"encoder.layers", "self_attn", "out_proj", "layer_norm1", "layer_norm2"};

TensorId SelfAttention(Builder& b, const Tower& tower, const TowerNames& names, TensorId x, bool causal) {
  auto layer = b.Enter(names.attention);
  const std::int64_t head_width = tower.width / tower.heads;
  const auto heads = [&](const char* name) {
    return zoo::SplitHeads(b, nn::Linear(b, name, x, tower.width, tower.qkv_bias), head_width);
  };
  TensorId query = heads("q_proj"), key = heads("k_proj"), value = heads("v_proj");
  const double scale = 1 / std::sqrt(static_cast<double>(head_width));
  TensorId out = op::Attention(
      b, query, key, value, {.causal = causal && b.dim(x, 1) > 1, .dropout = tower.attention_dropout, .scale = scale});
  return nn::Linear(b, names.out, zoo::MergeHeads(b, out), tower.width);
}

TensorId Layers(Builder& b, const Tower& tower, const TowerNames& names, TensorId x, bool causal) {
  for (std::int64_t i = 0; i < tower.layers; ++i) {
    auto layer = b.EnterBlock(fmt::format("{}.{}", names.layers, i));
    TensorId out = SelfAttention(b, tower, names, nn::LayerNorm(b, names.first_norm, x), causal);
    x = op::Add(b, op::Dropout(b, out, tower.dropout), x);
    out = nn::LayerNorm(b, names.second_norm, x);
    {
      auto mlp = b.Enter("mlp");
      out = nn::Linear(b, "fc2", Activate(b, tower.activation, nn::Linear(b, "fc1", out, tower.hidden)), tower.width);
    }
    x = op::Add(b, op::Dropout(b, out, tower.dropout), x);
  }
  return x;
}

std::int64_t Patches(const Tower& tower) { return (tower.image / tower.patch) * (tower.image / tower.patch); }

TensorId PatchEmbedding(Builder& b, const Tower& tower, const char* name, TensorId images, bool bias) {
  TensorId x = nn::Conv2d(b, name, images, tower.width, {.kernel = tower.patch, .stride = tower.patch, .bias = bias});
  return op::Transpose(b, op::Flatten(b, x, 2), 1, 2);
}

TensorId Images(Builder& b, const Tower& tower, std::int64_t batch) {
  const DType dtype = b.options().dtype.value_or(DType::kFloat32);
  return b.Input("pixel_values", {batch, tower.channels, tower.image, tower.image}, dtype);
}

TensorId VitEmbeddings(Builder& b, const Tower& tower, TensorId images) {
  auto layer = b.Enter("embeddings");
  TensorId first = b.Parameter("cls_token", {1, 1, tower.width});
  TensorId places = b.Parameter("position_embeddings", {1, Patches(tower) + 1, tower.width});
  TensorId x = PatchEmbedding(b, tower, "patch_embeddings.projection", images, true);
  x = op::Cat(b, {op::Expand(b, first, {b.dim(images, 0), -1, -1}), x}, 1);
  return op::Dropout(b, op::Add(b, x, places), tower.dropout);
}

TensorId ClipVision(Builder& b, const Tower& tower, TensorId images) {
  auto model = b.Enter("vision_model");
  TensorId x;
  {
    auto layer = b.Enter("embeddings");
    TensorId first = b.Parameter("class_embedding", {tower.width});
    TensorId ids = b.Buffer("position_ids", {1, Patches(tower) + 1}, DType::kInt64);
    x = PatchEmbedding(b, tower, "patch_embedding", images, false);
    x = op::Cat(b, {op::Expand(b, first, {b.dim(images, 0), 1, tower.width}), x}, 1);
    x = op::Add(b, x, nn::Embedding(b, "position_embedding", ids, Patches(tower) + 1, tower.width));
  }
  x = Layers(b, tower, kClip, nn::LayerNorm(b, "pre_layrnorm", x), false);
  return nn::LayerNorm(b, "post_layernorm", op::Select(b, x, 1, 0));
}

// The state at the end of each text, where its last token is.
TensorId ClipText(Builder& b, const Tower& tower, TensorId tokens) {
  auto model = b.Enter("text_model");
  const std::int64_t batch = b.dim(tokens, 0), length = b.dim(tokens, 1);
  TensorId x;
  {
    auto layer = b.Enter("embeddings");
    TensorId ids = op::Slice(b, b.Buffer("position_ids", {1, tower.places}, DType::kInt64), 1, 0, length);
    x = zoo::Words(b, nn::Embedding(b, "token_embedding", tokens, tower.words, tower.width));
    x = op::Add(b, x, nn::Embedding(b, "position_embedding", ids, tower.places, tower.width));
  }
  x = nn::LayerNorm(b, "final_layer_norm", Layers(b, tower, kClip, x, true));
  TensorId ends = op::Cast(b, tokens, DType::kInt32);
  ends = b.CallOne("eq", {{"self", ends}, {"other", 0.0}}, {b.shape(ends), DType::kBool});
  ends = op::Cast(b, ends, DType::kInt32);
  ends = b.CallOne("argmax", {{"self", ends}, {"dim", std::int64_t{-1}}}, {{batch}, DType::kInt64});
  TensorId rows = op::Arange(b, batch);
  return b.CallOne("index", {{"self", x}, {"indices", TensorList{{rows, ends}}}},
                   {{batch, tower.width}, b.at(x).dtype});
}

TensorId Normed(Builder& b, TensorId x) {
  TensorId square = op::Unary(b, "pow", x, {{"exponent", std::int64_t{2}}});
  TensorId norm = op::Unary(b, "pow", op::Sum(b, square, {-1}, true), {{"exponent", 0.5}});
  return op::Binary(b, "div", x, norm);
}

}  // namespace

TensorId RecordVit(Builder& b, const Vit& model, const Sizes& sizes) {
  const Tower& tower = model.tower;
  b.graph().loss_in_model = true;
  TensorId images = Images(b, tower, sizes.batch), labels = b.Label("labels", {sizes.batch});
  TensorId x;
  {
    auto layer = b.Enter("vit");
    x = Layers(b, tower, kVit, VitEmbeddings(b, tower, images), false);
    x = nn::LayerNorm(b, "layernorm", x);
  }
  TensorId first = op::Select(b, x, 1, 0);
  TensorId scores = nn::Linear(b, "classifier", first, model.classes);
  return op::CrossEntropy(b, scores, labels);
}

TensorId RecordClip(Builder& b, const Clip& model, const Sizes& sizes) {
  b.graph().loss_in_model = true;
  TensorId tokens = b.Input("input_ids", {sizes.batch, sizes.seq_len}, DType::kInt64);
  TensorId images = Images(b, model.vision, sizes.batch);
  TensorId scale = b.Parameter("logit_scale", {});
  TensorId vision = nn::Linear(b, "visual_projection", ClipVision(b, model.vision, images), model.projection, false);
  TensorId text = nn::Linear(b, "text_projection", ClipText(b, model.text, tokens), model.projection, false);
  vision = Normed(b, vision);
  text = Normed(b, text);
  TensorId scores = op::Mul(b, op::Matmul(b, text, op::T(b, vision)), op::Unary(b, "exp", scale));
  if (b.inference()) return scores;
  const auto contrast = [&](TensorId logits) { return op::CrossEntropy(b, logits, op::Arange(b, sizes.batch)); };
  TensorId sum = op::Add(b, contrast(scores), contrast(op::T(b, scores)));
  return op::WithScalar(b, "div", sum, 2);
}

}  // namespace ebbtide::model::hf
