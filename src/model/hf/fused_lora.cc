// One op for all layers; gradient_rules.cc has what it keeps, estimate/scratch_lora.cc what it takes meanwhile.
#include "model/hf/fused_lora.h"

#include <algorithm>

#include "model/lora.h"
#include "model/ops.h"
#include "model/quantize.h"

namespace ebbtide::model::hf {
namespace {

bool IsStoredInFourBits(const Builder& b) {
  const auto how = b.options().quantize;
  return IsQuantized(b) && (how == Quantization::kNf4 || how == Quantization::kGptq4);
}

// The gradient of what queries, keys and values read goes where that lies, but for GPTQ.
const char* KindOf(const Builder& b, std::size_t layers) {
  if (b.options().quantize == Quantization::kGptq4) return "fused_lora_gptq4";
  return layers > 1 ? "fused_lora_nf4_" : "fused_lora_nf4";
}

}  // namespace

bool AreFused(Builder& b, std::initializer_list<FusedLayer> layers) {
  if (b.options().kernels != KernelSet::kFoak) return false;
  return std::ranges::all_of(layers, [&](const FusedLayer& layer) {
    auto inside = b.Enter(layer.name);
    return IsStoredInFourBits(b) && HasAdapter(b.options(), b.layer());
  });
}

std::vector<TensorId> FusedLinears(Builder& b, TensorId x, std::initializer_list<FusedLayer> layers, bool bias) {
  const std::int64_t in = b.dim(x, -1), rank = *b.options().lora, rows = ElementCount(b.shape(x)) / in;
  const DType dtype = b.options().quantize == Quantization::kGptq4 ? DType::kFloat16 : b.at(x).dtype;
  x = op::Cast(b, x, dtype);
  const bool drops = b.options().lora_dropout > 0 && !b.inference();
  TensorList stored, a, up, biases;
  std::vector<OutputSpec> outputs;
  std::int64_t flops = 0;
  for (const FusedLayer& layer : layers) {
    auto inside = b.Enter(layer.name);
    for (const Argument& argument : StoreWeight(b, in, layer.features).arguments) {
      stored.ids.push_back(std::get<TensorId>(argument.value));
    }
    if (bias) {
      const DType wide = b.options().kbit_prepare ? DType::kFloat32 : dtype;
      biases.ids.push_back(b.FrozenParameter("bias", {layer.features}, wide));
    }
    const auto adapter = [&](const char* name, Dims shape) {
      auto part = b.Enter(name);
      return b.AdapterParameter("weight", std::move(shape));
    };
    a.ids.push_back(adapter("lora_A.default", {rank, in}));
    up.ids.push_back(adapter("lora_B.default", {layer.features, rank}));
    b.NoteLinearLayer();
    Dims shape = b.shape(x);
    shape.back() = layer.features;
    outputs.push_back({std::move(shape), dtype});
    if (drops) outputs.push_back({b.shape(x), dtype});
    flops += SaturatingMul(SaturatingMul(2 * rows, in + rank), layer.features);
  }
  const std::size_t step = drops ? 2 : 1;
  auto inside = b.Enter(layers.size() == 1 ? layers.begin()->name : "");
  const std::vector<TensorId> made =
      b.Call(KindOf(b, layers.size()),
             {{"input", x}, {"stored", stored}, {"bias", biases}, {"a", a}, {"b", up}, {"dropout", drops}},
             std::move(outputs), {.random = drops});
  b.graph().ops.back().flops = flops;
  std::vector<TensorId> results;
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (i % step == 0) results.push_back(made[i]);
    if (i % step != 0) b.set_needs_grad(made[i], false);
  }
  return results;
}

}  // namespace ebbtide::model::hf
