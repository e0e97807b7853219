// peft's default targets, and the ops of one adapter.
#include "model/lora.h"

#include <algorithm>

#include "model/ops.h"
#include "model/patterns.h"

namespace ebbtide::model {

namespace {

// peft's default targets for the families of the zoo: bert; gpt2; t5; llama, qwen, gemma, opt, gpt-neo.
constexpr const char* kDefaultTargets[] = {"query", "value", "c_attn", "q", "v", "q_proj", "v_proj"};

TensorId WithoutBias(Builder& b, const std::string& name, TensorId x, std::int64_t features) {
  auto layer = b.Enter(name);
  return op::Linear(b, x, b.AdapterParameter("weight", {features, b.dim(x, -1)}));
}

}  // namespace

bool MatchesLayerOrItsEnd(const std::string& pattern, const std::string& layer) {
  return Matches(pattern, layer) || Matches("*." + pattern, layer);
}

bool HasAdapter(const ModelOptions& options, const std::string& layer) {
  if (!options.lora) return false;
  const auto is_target = [&](const std::string& pattern) { return MatchesLayerOrItsEnd(pattern, layer); };
  return options.lora_targets.empty() ? std::ranges::any_of(kDefaultTargets, is_target)
                                      : std::ranges::any_of(options.lora_targets, is_target);
}

TensorId WithAdapter(Builder& b, TensorId x, TensorId result) {
  b.NoteLinearLayer();
  if (!HasAdapter(b.options(), b.layer())) return result;
  x = op::Cast(b, x, DType::kFloat32);  // the adapter's own type
  TensorId low = WithoutBias(b, "lora_A.default", x, *b.options().lora);
  TensorId adapted = WithoutBias(b, "lora_B.default", low, b.dim(result, -1));
  return op::Add(b, result, op::WithScalar(b, "mul", adapted, 1));  // lora_alpha / rank
}

}  // namespace ebbtide::model
