// Words of the flags, and what they stand for.
#include "cli/language_flags.h"

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/nearest.h"

namespace ebbtide::cli {
namespace {

template <class T>
using Words = std::vector<std::pair<std::string, T>>;

// A flag whose value is one of some words.
template <class T, class Target>
CLI::Option* AddWords(CLI::App& verb, const char* flag, Words<T> words, Target& target, const char* description) {
  const auto parse = [flag, words = std::move(words), &target](const std::string& text) {
    std::vector<std::string> names;
    for (const auto& [name, value] : words) {
      if (name == text) {
        target = value;
        return;
      }
      names.push_back(name);
    }
    throw CLI::ValidationError(
        flag, fmt::format("expected {}, found {}{}", JoinWithOr(names), text, DidYouMean(text, names)));
  };
  return verb.add_option_function<std::string>(flag, parse, description)->type_name("NAME");
}

void ParseVersion(const std::string& text, model::LibraryVersion& version) {
  const char* const end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, version.major);
  const bool has_minor = major.ec == std::errc() && major.ptr != end && *major.ptr == '.';
  const auto minor = has_minor ? std::from_chars(major.ptr + 1, end, version.minor) : major;
  if (has_minor && minor.ec == std::errc() && (minor.ptr == end || *minor.ptr == '.')) return;
  throw CLI::ValidationError("--transformers", fmt::format("expected a version as 4.48, found {}", text));
}

}  // namespace

void AddLanguageFlags(CLI::App& verb, ModelFlags& flags) {
  using namespace model;
  ModelOptions& options = flags.options;
  const auto add = [&](CLI::Option* option) { flags.choices.push_back(option); };
  add(AddWords<DType>(verb, "--dtype",
                      {{"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}, {"fp32", DType::kFloat32}}, options.dtype,
                      "Type of the weights: bf16, fp16 or fp32 (default: as config.json says)"));
  add(AddWords<Quantization>(verb, "--quantize",
                             {{"nf4", Quantization::kNf4},
                              {"int8", Quantization::kInt8},
                              {"gptq4", Quantization::kGptq4},
                              {"fp8", Quantization::kFp8}},
                             options.quantize, "How frozen linear layers are stored: nf4, int8, gptq4 or fp8"));
  add(verb.add_flag("--kbit-prepare", options.kbit_prepare,
                    "What stays 16-bit beside --quantize becomes float32, as peft's prepare_model_for_kbit_training")
          ->disable_flag_override());
  add(AddWords<AttentionKernel>(
      verb, "--attention",
      {{"eager", AttentionKernel::kEager}, {"sdpa", AttentionKernel::kSdpa}, {"flash", AttentionKernel::kFlash}},
      options.attention, "Whose attention: eager, sdpa (default) or flash"));
  add(AddWords<LossKernel>(
      verb, "--loss", {{"plain", LossKernel::kPlain}, {"fused", LossKernel::kFused}, {"chunked", LossKernel::kChunked}},
      options.loss, "How the loss is computed: plain (default), fused (Liger's) or chunked (cut cross-entropy)"));
  add(AddWords<KernelSet>(
      verb, "--kernels", {{"plain", KernelSet::kPlain}, {"liger", KernelSet::kLiger}, {"foak", KernelSet::kFoak}},
      options.kernels, "Kernels in the place of norms, positions, gates and losses: plain (default), liger or foak"));
  add(verb.add_flag("--packing", options.packing, "Several texts in a row, told apart by their positions")
          ->disable_flag_override());
  add(verb.add_option("--resize-vocab", options.resize_vocab, "Words after resize_token_embeddings")
          ->type_name("N")
          ->check(Check(CheckPositive)));
  add(verb.add_option_function<std::string>(
              "--transformers", [&](const std::string& text) { ParseVersion(text, options.transformers); },
              "Whose transformers computes (default 5.22; checked: 4.39 to 4.48, 5.22)")
          ->type_name("VERSION"));
}

}  // namespace ebbtide::cli
