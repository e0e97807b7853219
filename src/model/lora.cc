// peft's default targets, and the ops of one adapter (peft 0.11 to 0.19).
#include "model/lora.h"

#include <algorithm>

#include "model/ops.h"
#include "model/patterns.h"
#include "model/quantize.h"

namespace ebbtide::model {

namespace {

// peft's default targets by family: bert; gpt2; t5; llama, mistral, qwen, gemma, opt, gpt-neo; gpt_neox, falcon; phi3.
constexpr const char* kDefaultTargets[] = {"query",  "value",  "c_attn",          "q",       "v",
                                           "q_proj", "v_proj", "query_key_value", "qkv_proj"};

TensorId WithoutBias(Builder& b, const std::string& name, TensorId x, std::int64_t features) {
  auto layer = b.Enter(name);
  return op::Linear(b, x, b.AdapterParameter("weight", {features, b.dim(x, -1)}));
}

}  // namespace

bool MatchesLayerOrItsEnd(const std::string& pattern, const std::string& layer) {
  return Matches(pattern, layer) || Matches("*." + pattern, layer);
}

bool IsTarget(const std::string& target, const std::string& layer) {
  if (target == "all-linear") return !layer.ends_with("lm_head") && !layer.ends_with("embed_out");
  return MatchesLayerOrItsEnd(target, layer);
}

bool HasAdapter(const ModelOptions& options, const std::string& layer) {
  if (!options.lora) return false;
  const auto is_target = [&](const std::string& target) { return IsTarget(target, layer); };
  return options.lora_targets.empty() ? std::ranges::any_of(kDefaultTargets, is_target)
                                      : std::ranges::any_of(options.lora_targets, is_target);
}

TensorId WithAdapter(Builder& b, TensorId x, TensorId result) {
  b.NoteLinearLayer();
  if (!HasAdapter(b.options(), b.layer())) return result;
  const DType dtype = b.at(result).dtype;
  const bool quantized = IsQuantized(b);
  // peft keeps 4-bit results from being changed under autograd's eyes.
  if (quantized && b.options().quantize == Quantization::kNf4) result = op::Clone(b, result);
  const bool converts = !quantized || !b.options().autocast;  // else autocast finds the type
  if (converts) x = op::Cast(b, x, DType::kFloat32);          // the adapter's own
  {
    auto layer = b.Enter("lora_dropout.default");
    x = op::Dropout(b, x, b.options().lora_dropout);
  }
  TensorId low = WithoutBias(b, "lora_A.default", x, *b.options().lora);
  TensorId adapted = WithoutBias(b, "lora_B.default", low, b.dim(result, -1));
  adapted = op::WithScalar(b, "mul", adapted, 1);  // lora_alpha / rank
  if (quantized) return op::Add(b, result, converts ? op::Cast(b, adapted, dtype) : adapted);
  return op::Cast(b, op::Add(b, result, adapted), dtype);
}

}  // namespace ebbtide::model
