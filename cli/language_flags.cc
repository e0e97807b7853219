// Words of the flags, and what they stand for.
#include "cli/language_flags.h"

#include <string>

#include "cli/word_flags.h"
#include "model/option_words.h"

namespace ebbtide::cli {

void AddLanguageFlags(CLI::App& verb, ModelFlags& flags) {
  using namespace model;
  ModelOptions& options = flags.options;
  const auto add = [&](CLI::Option* option) { flags.choices.push_back(option); };
  add(AddWords(verb, "--dtype", kDtypeWords, options.dtype,
               "Type of the weights: bf16, fp16 or fp32 (default: as config.json says)"));
  add(AddWords(verb, "--quantize", kQuantizeWords, options.quantize,
               "How frozen linear layers are stored: nf4, int8, gptq4 or fp8"));
  add(verb.add_flag("--kbit-prepare", options.kbit_prepare,
                    "What stays 16-bit beside --quantize becomes float32, as peft's prepare_model_for_kbit_training")
          ->disable_flag_override());
  add(AddWords(verb, "--attention", kAttentionWords, options.attention,
               "Whose attention: eager, sdpa (default) or flash"));
  add(AddWords(verb, "--loss", kLossWords, options.loss,
               "How the loss is computed: plain (default), fused (Liger's) or chunked (cut cross-entropy)"));
  add(AddWords(verb, "--kernels", kKernelWords, options.kernels,
               "Kernels in the place of norms, positions, gates and losses: plain (default), liger or foak"));
  add(verb.add_flag("--packing", options.packing, "Several texts in a row, told apart by their positions")
          ->disable_flag_override());
  add(verb.add_option("--resize-vocab", options.resize_vocab, "Words after resize_token_embeddings")
          ->type_name("N")
          ->check(Check(CheckPositive)));
  const auto set_version = [&](const std::string& text) {
    const auto version = ParseLibraryVersion(text);
    if (!version) throw CLI::ValidationError("--transformers", version.error().message);
    options.transformers = *version;
  };
  add(verb.add_option_function<std::string>("--transformers", set_version,
                                            "Whose transformers computes (default 5.22; checked: 4.39 to 4.48, 5.22)")
          ->type_name("VERSION"));
}

}  // namespace ebbtide::cli
