// One function per group of settings; names as transformers has them, older spellings behind.
#include "model/hf/config.h"

#include <algorithm>

#include "base/json_text.h"
#include "model/hf/parts.h"

namespace ebbtide::model::hf {
namespace {

void ReadSizes(Settings& in, Decoder& model) {
  in.Integer({"num_hidden_layers", "n_layer", "num_layers"}, model.layers, 1, kMostLayers);
  in.Integer({"hidden_size", "n_embd", "d_model"}, model.width, 1, kMostWidth);
  in.Integer({"num_attention_heads", "n_head"}, model.heads, 1, kMostHeads);
  // Families that were there before heads were shared know neither setting.
  const bool shares = model.norm != NormKind::kLayer || model.projections == ProjectionKind::kSeparate;
  if (shares && model.positions != PositionKind::kLearnt) {
    in.Integer({"num_key_value_heads"}, model.key_heads, 1, kMostHeads);
    in.Integer({"head_dim"}, model.head_width, 1, kMostWidth);
  }
  if (model.hidden == 0) {  // gpt2 and falcon: four times the width where nothing is said
    in.Integer({"n_inner", "ffn_hidden_size"}, model.hidden, 1, kMostHidden);
  } else if (model.flat_mlp) {  // opt
    in.Integer({"ffn_dim"}, model.hidden, 1, kMostHidden);
  } else {
    in.Integer({"intermediate_size"}, model.hidden, 1, kMostHidden);
  }
  in.Integer({"vocab_size"}, model.words, 1, kMostWords);
  if (model.places > 0) in.Integer({"n_positions", "max_position_embeddings"}, model.places, 1, kMostWords);
  in.Integer({"max_position_embeddings"}, model.table_places, 1, kMostWords);
  if (model.hidden == 0) model.hidden = 4 * model.width;
}

void ReadParts(Settings& in, Decoder& model) {
  in.Text({"hidden_activation", "hidden_act", "activation_function", "activation"}, model.activation);
  in.Bool({"tie_word_embeddings"}, model.tied);
  if (in.Has("attention_bias")) {
    in.Bool({"attention_bias"}, model.qkv_bias);
    model.out_bias = model.qkv_bias;
  }
  in.Bool({"mlp_bias"}, model.mlp_bias);
  in.Share({"embd_pdrop"}, model.embedding_dropout);
  in.Share({"resid_pdrop", "hidden_dropout", "dropout"}, model.residual_dropout);
  in.Share({"attn_pdrop", "attention_dropout"}, model.attention_dropout);
  in.Share({"rope_parameters.partial_rotary_factor", "partial_rotary_factor", "rotary_pct"}, model.rotary_share);
  if (model.score_cap > 0) in.Number({"attn_logit_softcapping"}, model.score_cap);
  if (model.logit_cap > 0) in.Number({"final_logit_softcapping"}, model.logit_cap);
  if (model.norm == NormKind::kLayerBare) in.Number({"clip_qkv"}, model.clamp_qkv);
}

void ReadWindows(Settings& in, const FamilyRow& family, Decoder& model) {
  std::int64_t window = model.window;
  if (in.Has("sliding_window")) in.Integer({"sliding_window"}, window, 0, kMostWords);
  const std::vector<std::string> types = in.Texts("layer_types");
  switch (family.reading) {
    case Reading::kMistral:
    case Reading::kGemma: model.window = window; break;
    case Reading::kQwen: {
      bool used = false;
      in.Bool({"use_sliding_window"}, used);
      model.window = used ? window : 0;
      break;
    }
    default: return;
  }
  if (model.window == 0) return;
  if (!types.empty()) {
    if (static_cast<std::int64_t>(types.size()) < model.layers) {
      return in.Complain(
          fmt::format("layer_types: expected one for each of {} layers, found {}", model.layers, types.size()));
    }
    for (const std::string& type : types) model.windowed.push_back(type == "sliding_attention");
    return;
  }
  if (family.reading == Reading::kMistral) return;
  std::int64_t first = 28, pattern = family.window_pattern;
  in.Integer({"max_window_layers"}, first, 0, kMostLayers);
  in.Integer({"_sliding_window_pattern", "sliding_window_pattern"}, pattern, 1, kMostLayers);
  for (std::int64_t i = 0; i < model.layers; ++i) {
    model.windowed.push_back(family.reading == Reading::kQwen ? i >= first : (i + 1) % pattern != 0);
  }
}

void ReadExperts(Settings& in, Decoder& model) {
  Experts& experts = model.experts;
  if (experts.count == 0) return;
  const bool has_own_width = experts.hidden > 0;
  in.Integer({"num_local_experts", "num_experts", "n_routed_experts"}, experts.count, 1, kMostExperts);
  in.Integer({"num_experts_per_tok"}, experts.per_token, 1, kMostExperts);
  in.Integer({"moe_intermediate_size"}, experts.hidden, 1, kMostHidden);
  if (!has_own_width) experts.hidden = model.hidden;
  in.Integer({"shared_expert_intermediate_size"}, experts.shared_hidden, 1, kMostHidden);
  in.Integer({"first_k_dense_replace"}, experts.first_layer, 0, kMostLayers);
  in.Integer({"decoder_sparse_step"}, experts.every, 1, kMostLayers);
  if (experts.router != RouterKind::kSoftmax || has_own_width) in.Bool({"norm_topk_prob"}, experts.normed);
  experts.dense_layers = in.Integers("mlp_only_layers");
  if (experts.per_token < 1 || experts.per_token > experts.count) {
    in.Complain(fmt::format("num_experts_per_tok: expected 1 to {}, the experts there are, found {}", experts.count,
                            experts.per_token));
  }
}

void ReadDeepseek(Settings& in, Decoder& model) {
  Latent& latent = model.latent;
  if (!in.Has("q_lora_rank") && in.Has("kv_lora_rank")) latent.query_rank = 0;  // null: straight from x
  in.Integer({"q_lora_rank"}, latent.query_rank, 1, kMostWidth);
  in.Integer({"kv_lora_rank"}, latent.key_rank, 1, kMostWidth);
  in.Integer({"qk_nope_head_dim"}, latent.plain_width, 1, kMostWidth);
  in.Integer({"qk_rope_head_dim"}, latent.rotary_width, 2, kMostWidth);
  in.Integer({"v_head_dim"}, model.value_width, 1, kMostWidth);
  std::int64_t shared = model.positions == PositionKind::kRotaryComplex ? 2 : 1;
  in.Integer({"n_shared_experts"}, shared, 0, kMostExperts);
  model.experts.shared_hidden = shared * model.experts.hidden;
  in.Integer({"n_group"}, model.experts.groups, 1, kMostExperts);
  in.Integer({"topk_group"}, model.experts.best_groups, 1, kMostExperts);
  std::string method = "greedy";
  in.Text({"topk_method"}, method);
  if (method == "group_limited_greedy") model.experts.by_groups = true;
  bool interleaved = true;
  in.Bool({"rope_interleave"}, interleaved);
  if (!interleaved && model.positions == PositionKind::kRotaryPairs) model.positions = PositionKind::kRotary;
  model.head_width = latent.plain_width + latent.rotary_width;
  model.rotary_width = latent.rotary_width;
  const Experts& experts = model.experts;
  if (experts.by_groups && (experts.count % experts.groups != 0 || experts.best_groups > experts.groups ||
                            experts.count / experts.groups < 2)) {
    in.Complain(fmt::format("n_group: expected a number that {} experts can be divided by, found {}", experts.count,
                            experts.groups));
  }
}

void ReadFalcon(Settings& in, Decoder& model) {
  bool is_new = false, multi_query = true, parallel = true, alibi = false, bias = false;
  in.Bool({"new_decoder_architecture"}, is_new);
  in.Bool({"multi_query"}, multi_query);
  in.Bool({"parallel_attn"}, parallel);
  in.Bool({"alibi"}, alibi);
  in.Bool({"bias"}, bias);
  model.qkv_bias = model.out_bias = model.mlp_bias = bias;
  if (alibi) in.Complain("alibi: expected false; positions by alibi are not known to this reader");
  std::int64_t key_heads = model.heads;
  in.Integer({"num_kv_heads", "n_head_kv"}, key_heads, 1, kMostHeads);
  model.key_heads = is_new ? key_heads : multi_query ? 1 : model.heads;
  std::int64_t norms = is_new ? 2 : 1;
  in.Integer({"num_ln_in_parallel_attn"}, norms, 1, 2);
  if (is_new && norms == 2) {
    model.block = BlockKind::kParallelTwoNorms;
    model.names.attention_norm = "ln_attn";
    model.names.mlp_norm = "ln_mlp";
  } else if (!is_new && !parallel) {
    model.block = BlockKind::kPreNorm;
  }
}

void ReadOpt(Settings& in, Decoder& model) {
  bool before = true, bias = true, affine = true, no_last = false;
  in.Bool({"do_layer_norm_before"}, before);
  in.Bool({"enable_bias"}, bias);
  in.Bool({"layer_norm_elementwise_affine"}, affine);
  in.Bool({"_remove_final_layer_norm"}, no_last);
  if (!affine) in.Complain("layer_norm_elementwise_affine: expected true; norms without weights are not known here");
  model.qkv_bias = model.out_bias = model.mlp_bias = bias;
  if (!before) model.block = BlockKind::kNormAfterSum;
  model.no_last_norm = !before || no_last;
  std::int64_t words = model.width;
  in.Integer({"word_embed_proj_dim"}, words, 1, kMostWidth);
  if (words != model.width) model.word_width = words;
  model.head_width = 0;
}

void ReadSpecial(Settings& in, const FamilyRow& family, Decoder& model) {
  switch (family.reading) {
    case Reading::kGptNeox: {
      bool parallel = true;
      in.Bool({"use_parallel_residual"}, parallel);
      if (!parallel) model.block = BlockKind::kPreNorm;
      break;
    }
    case Reading::kBigCode: {
      bool multi_query = true;
      in.Bool({"multi_query"}, multi_query);
      model.key_heads = multi_query ? 1 : model.heads;
      if (!multi_query) model.projections = ProjectionKind::kByHead;
      break;
    }
    case Reading::kOpt: return ReadOpt(in, model);
    case Reading::kFalcon: return ReadFalcon(in, model);
    case Reading::kDeepseek: return ReadDeepseek(in, model);
    default: break;
  }
}

void CheckShape(Settings& in, const Decoder& model) {
  const auto even = [&](const char* what, std::int64_t whole, std::int64_t parts) {
    if (parts > 0 && whole % parts == 0) return;
    in.Complain(fmt::format("{}: expected a divisor of {}, found {}", what, whole, parts));
  };
  if (model.head_width * model.heads > kMostHidden) {
    in.Complain(fmt::format("head_dim: expected heads that together are at most {} wide, found {} of {}", kMostHidden,
                            model.heads, model.head_width));
  }
  even("num_key_value_heads", model.heads, model.key_heads);
  const bool is_rotary = model.positions != PositionKind::kLearnt && model.positions != PositionKind::kNone;
  if (is_rotary && (model.rotary_width < 2 || model.rotary_width % 2 != 0)) {
    in.Complain(
        fmt::format("head_dim: expected a head of which an even width is turned, found {}", model.rotary_width));
  }
  if (!IsActivation(model.activation)) {
    in.Complain(fmt::format("hidden_act: {} is not an activation that this reader knows", Quoted(model.activation)));
  }
}

}  // namespace

Result<Decoder> ReadDecoder(const FamilyRow& family, Settings in) {
  Decoder model = family.decoder;
  ReadSizes(in, model);
  ReadParts(in, model);
  if (model.key_heads == 0) model.key_heads = model.heads;
  ReadWindows(in, family, model);
  ReadExperts(in, model);
  ReadSpecial(in, family, model);
  if (model.head_width == 0) {
    if (model.width % model.heads != 0) {
      in.Complain(fmt::format("num_attention_heads: expected a divisor of {}, found {}", model.width, model.heads));
    }
    model.head_width = std::max<std::int64_t>(model.width / model.heads, 1);
  }
  if (model.rotary_width == 0) {
    model.rotary_width = static_cast<std::int64_t>(static_cast<double>(model.head_width) * model.rotary_share);
  }
  if (model.value_width == 0) model.value_width = model.head_width;
  CheckShape(in, model);
  if (in.error()) return tl::unexpected<Error>(*in.error());
  return model;
}

}  // namespace ebbtide::model::hf
