// A decoder-only language model as its configuration describes it: sizes, and which of the usual parts it is made of.
// families.cc has one row per family of transformers, config.cc fills the sizes in, decoder.cc records the training
// step. Nothing after config.cc knows a family by its name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/builder.h"

namespace ebbtide::model::hf {

enum class NormKind : std::uint8_t {
  kRms,        // x / rms(x) * weight, op by op
  kRmsOffset,  // the same with a weight that is stored less one (gemma)
  kRmsWide,    // the product with the weight is taken in float32 (olmo2, gpt-oss)
  kLayer,      // nn.LayerNorm
  kLayerBare,  // without weights, in float32 (olmo)
};

enum class PositionKind : std::uint8_t {
  kRotary,         // halves of a head are turned against each other
  kRotaryPairs,    // neighbours are (deepseek v3)
  kRotaryComplex,  // neighbours are, as complex numbers (deepseek v2)
  kRotaryHalves,   // halves, without the table being doubled (gpt-oss)
  kLearnt,         // an embedding of places, added to that of words
  kNone,           // (falcon with alibi: its bias is not modelled, and refused)
};

enum class ProjectionKind : std::uint8_t {
  kSeparate,  // a layer each for queries, keys and values
  kByPart,    // one layer: all queries, then all keys, then all values
  kByHead,    // one layer: of every head its query, key and value
  kByGroup,   // one layer: of every group its queries, its key and its value (falcon)
  kLatent,    // keys and values by way of a narrow one (deepseek)
};

enum class MlpKind : std::uint8_t {
  kPlain,       // down(act(up(x)))
  kGated,       // down(act(gate(x)) * up(x))
  kGatedFused,  // the same with gate and up in one layer
};

enum class BlockKind : std::uint8_t {
  kPreNorm,           // x + attention(norm(x)), then x + mlp(norm(x))
  kPostNorm,          // x + norm(attention(x)), then x + norm(mlp(x)) (olmo2)
  kSandwich,          // norms on both sides (gemma 2)
  kNormAfterSum,      // norm(x + attention(x)) (opt-350m)
  kParallel,          // both read the same norm(x); their sum is added to x
  kParallelTwoNorms,  // both read x, each through a norm of its own
};

// How scores of the router become weights of the experts.
enum class RouterKind : std::uint8_t {
  kSoftmax,         // of all experts, then the best
  kTopFirst,        // the best, then softmax among them (granite, gpt-oss)
  kGroupedSoftmax,  // deepseek v2: in float32; the best of the best groups
  kGroupedSigmoid,  // deepseek v3
};

struct Experts {
  std::int64_t count = 0;  // 0: none
  std::int64_t per_token = 0;
  std::int64_t hidden = 0;         // width inside one expert
  std::int64_t shared_hidden = 0;  // of the expert that every token takes; 0: there is none
  bool shared_gated = false;       // the shared one's result is weighed by a gate of its own (qwen2-moe)
  RouterKind router = RouterKind::kSoftmax;
  bool normed = false;         // the weights of a token's experts are made to sum up to one
  bool in_model_type = false;  // and are rounded to the model's type
  bool bias = false;           // router and experts have one (gpt-oss)
  bool clamped = false;        // gpt-oss' own gate: clamp, sigmoid, both halves interleaved
  std::int64_t groups = 1;     // of experts, of which `best_groups` are looked at
  std::int64_t best_groups = 1;
  bool by_groups = false;                       // groups are looked at at all
  std::int64_t first_layer = 0;                 // the layers before it are dense
  std::int64_t every = 1;                       // of the others, every so many-th has experts
  std::vector<std::int64_t> dense_layers = {};  // these have none either
};

// deepseek's multi-head latent attention.
struct Latent {
  std::int64_t query_rank = 0;  // 0: queries come straight from x
  std::int64_t key_rank = 0;
  std::int64_t plain_width = 0;   // of a head's part without positions
  std::int64_t rotary_width = 0;  // and of that with
};

// Names of modules, as transformers has them. A null one is not there.
struct Names {
  const char* model = "model";
  const char* words = "embed_tokens";
  const char* positions = nullptr;
  const char* blocks = "layers";
  const char* attention = "self_attn";
  const char* query = "q_proj";
  const char* key = "k_proj";
  const char* value = "v_proj";
  const char* fused = "qkv_proj";  // where queries, keys and values are one layer
  const char* out = "o_proj";
  const char* mlp = "mlp";
  const char* gate = "gate_proj";
  const char* up = "up_proj";
  const char* down = "down_proj";
  const char* experts = "mlp";  // the block of experts, in the place of `mlp`
  const char* router = "gate";
  const char* attention_norm = "input_layernorm";
  const char* attention_norm_after = "post_attention_layernorm";  // kPostNorm, kSandwich
  const char* mlp_norm = "post_attention_layernorm";
  const char* mlp_norm_after = "post_feedforward_layernorm";
  const char* query_norm = "q_norm";
  const char* key_norm = "k_norm";
  const char* last_norm = "norm";
  const char* head = "lm_head";
};

struct Decoder {
  // ---- Sizes
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t hidden = 0;  // inside the MLP
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t head_width = 0;
  std::int64_t value_width = 0;   // of a head; as head_width but in latent attention
  std::int64_t rotary_width = 0;  // of a head, the part that positions turn
  std::int64_t words = 0;
  std::int64_t places = 0;            // rows of a learnt table of positions
  std::int64_t spare_places = 0;      // rows of it that no position names (opt)
  std::int64_t table_places = 32768;  // positions that rotary tables were once kept for
  std::int64_t word_width = 0;        // of the words' embedding; 0: as wide as the model (opt-350m)

  // ---- Parts
  NormKind norm = NormKind::kRms;
  PositionKind positions = PositionKind::kRotary;
  ProjectionKind projections = ProjectionKind::kSeparate;
  MlpKind mlp = MlpKind::kGated;
  BlockKind block = BlockKind::kPreNorm;
  std::string activation = "silu";
  bool tied = false;
  bool qkv_bias = false;
  bool out_bias = false;
  bool mlp_bias = false;
  bool head_bias = false;     // of the layer that gives the scores
  double rotary_share = 1;    // of a head's width
  bool joins_rest = false;    // what is turned and the rest are joined, be there a rest or not (phi3)
  bool head_norm = false;     // of queries and keys, head by head
  bool wide_norm = false;     // of queries and keys, all heads at once (olmo2)
  bool scaled_query = false;  // queries are scaled before they meet the keys (opt)
  bool flat_mlp = false;      // the MLP sees a matrix (opt)
  bool conv1d = false;        // weights are [in, out] (gpt2)
  bool sinks = false;         // a learnt score per head that draws attention to nothing (gpt-oss)
  bool scaled_words = false;  // the embedding is multiplied by a buffer (gemma)
  bool kept_mask = false;     // of all positions, as a buffer (gpt_bigcode)
  bool multiplied = false;    // granite: embedding, residual and logits are multiplied by numbers
  bool eager_only = false;    // no fused attention: it caps its scores, or has sinks
  bool no_last_norm = false;  // (opt-350m)
  bool repeats_keys = false;  // for flash attention, before transformers 4.48
  bool sum_in_place = false;  // the MLP's result takes the attention's in (falcon)
  double score_cap = 0;       // tanh caps; 0: none
  double logit_cap = 0;
  double clamp_qkv = 0;  // (olmo)
  double embedding_dropout = 0;
  double residual_dropout = 0;
  double attention_dropout = 0;
  std::int64_t window = 0;          // keys that a query sees, in the layers that have one; 0: all
  std::vector<bool> windowed = {};  // by layer; empty: none, or all if `window`
  int rotary_tables = 1;            // gemma 3 has one for the layers with a window and one for the others
  Experts experts = {};
  Latent latent = {};
  Names names = {};

  bool HasExperts(std::int64_t layer) const;
  bool HasWindow(std::int64_t layer) const;
};

// Records the forward pass of a batch of `batch` sequences of `length` tokens, and the loss that the model computes
// itself: the mean cross-entropy of the next token. Returns the loss; the scores in inference.
TensorId RecordDecoder(Builder& builder, const Decoder& model, std::int64_t batch, std::int64_t length);

}  // namespace ebbtide::model::hf
