// The families of decoders that are read without Python: one row each, by the `model_type` of config.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/hf/decoder.h"

namespace ebbtide::model::hf {

// Which settings of the file have a say in what the row leaves open.
enum class Reading : std::uint8_t {
  kPlain,     // sizes alone
  kMistral,   // `sliding_window` holds for all layers
  kQwen,      // `use_sliding_window`, from layer `max_window_layers` on
  kGemma,     // `layer_types`, else every so many-th layer sees everything
  kGptNeox,   // `use_parallel_residual`
  kBigCode,   // `multi_query`
  kOpt,       // `do_layer_norm_before`, `word_embed_proj_dim`
  kFalcon,    // `new_decoder_architecture`, `parallel_attn`, `multi_query`, `alibi`
  kDeepseek,  // latent attention, groups of experts
};

struct FamilyRow {
  const char* model_type;
  const char* trained_class;  // of transformers
  Reading reading;
  std::int64_t window_pattern;  // kGemma: every so many-th layer has no window
  Decoder decoder;              // its parts, and the sizes that transformers takes where the file is silent
};

const std::vector<FamilyRow>& DecoderFamilies();
const FamilyRow* FindDecoderFamily(const std::string& model_type);

// Whether liger-kernel (0.8) has its fused loss for the family.
bool LigerHasFusedLoss(std::string_view model_type);

}  // namespace ebbtide::model::hf
