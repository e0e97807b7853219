// What the language models share. They are the classes of transformers in training mode, called with input_ids and
// labels and nothing else (no padding, no packed sequences, no cache), so that the model computes its own loss.
//
// Masks are those of eager training on real data. Where a model calls scaled_dot_product_attention, transformers leaves
// the causal mask out and passes is_causal; under fake tensors alone it cannot look at the positions and would make
// a mask of [batch, 1, length, length]. Models that spell their attention out (gpt-neo, gemma-2) make that mask always.
// The look at the positions itself, a dozen kernels over [batch, length] integers, is not recorded.
#pragma once

#include <cstdint>
#include <string>

#include "model/nn.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::zoo {

struct TokenBatch {
  TensorId tokens, labels;  // [batch, length]
};
TokenBatch TokenInput(Builder& b, const Sizes& sizes);

// What the words' embedding gives. Where transformers checkpoints blocks, it asks for a gradient of this even if the
// embedding is frozen.
TensorId Words(Builder& b, TensorId embedded);

// 0, 1, ..., length - 1 as [1, length].
TensorId Positions(Builder& b, std::int64_t length);

// [batch, length, heads * head_width] as [batch, heads, length, head_width], and back in a tensor of its own.
TensorId SplitHeads(Builder& b, TensorId x, std::int64_t head_width);
TensorId MergeHeads(Builder& b, TensorId x);

// 0 where a query may look, the lowest float elsewhere: [batch, 1, length, length]. A query sees `window` keys, itself
// among them; 0: all before it.
TensorId CausalMask(Builder& b, std::int64_t batch, std::int64_t length, std::int64_t window = 0,
                    DType dtype = DType::kFloat32);
// The same as true and false.
TensorId VisibleKeys(Builder& b, std::int64_t batch, std::int64_t length, std::int64_t window = 0);

// x / sqrt(mean(x^2) + eps) * weight, op by op. `offset`: the weight is stored less one (gemma).
TensorId RmsNorm(Builder& b, const std::string& name, TensorId x, bool offset = false);

// The tanh form of GELU as GPT-2 wrote it: eight kernels, of which four results are kept.
TensorId NewGelu(Builder& b, TensorId x);

// Scores of every word at every place: x times the transposed embedding, without bias.
TensorId TiedScores(Builder& b, TensorId x, TensorId embedding);

// Cross-entropy over the places of [batch, length, words]; the scores themselves in inference.
TensorId TokenLoss(Builder& b, TensorId logits, TensorId labels);
// The same against the labels one place further on.
TensorId NextTokenLoss(Builder& b, TensorId logits, TensorId labels);

}  // namespace ebbtide::model::zoo
