// The parts that models of transformers are made of, each with the parameters it owns.
#pragma once

#include <string>

#include "model/hf/decoder.h"
#include "model/nn.h"

namespace ebbtide::model::hf {

// Over the last axis.
TensorId Norm(Builder& builder, NormKind kind, const std::string& name, TensorId x);

// A linear layer; `conv1d`: with its weight stored [in, out], as GPT-2 has it.
TensorId Linear(Builder& builder, const std::string& name, TensorId x, std::int64_t features, bool bias,
                bool conv1d = false);

// Whether the name is one of transformers' activations that we know.
bool IsActivation(const std::string& name);
TensorId Activate(Builder& builder, const std::string& activation, TensorId x);

// tanh(x / cap) * cap; nothing for a cap of 0.
TensorId Capped(Builder& builder, TensorId x, double cap);

// The dense MLP of a block, `hidden` wide inside, in the layer that the builder is in.
TensorId Mlp(Builder& builder, const Decoder& model, TensorId x, std::int64_t hidden);

// What a block computes in the place of its MLP where it has experts.
TensorId MixtureOfExperts(Builder& builder, const Decoder& model, TensorId x);

// Tables of rotary positions, [1, length, width]; the same tensor twice where it holds complex numbers.
struct Rotary {
  TensorId cosine, sine;
};
Rotary RotaryTable(Builder& builder, const Decoder& model, TensorId positions, DType dtype);

// Self-attention with its projections, in the layer that the builder is in. `mask`: invalid where the kernel hides
// what comes later itself.
TensorId SelfAttention(Builder& builder, const Decoder& model, TensorId x, const Rotary& rotary, TensorId mask);

// The mean cross-entropy of the next token by scores [batch, length, words], which are handed back in inference, and
// which `states` were computed to; and by the states alone, where a kernel does both.
TensorId LanguageLoss(Builder& builder, TensorId states, TensorId logits, TensorId labels);
TensorId LanguageLossOfStates(Builder& builder, TensorId states, TensorId weight, TensorId labels);

}  // namespace ebbtide::model::hf
