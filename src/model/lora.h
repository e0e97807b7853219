// Low-rank adapters (Hu et al. 2021) as peft makes them by default: the model is frozen, and beside a linear layer
// x W' stands a trained x A' B' times a number, with A [rank, in] and B [out, rank].
#pragma once

#include <string>

#include "model/builder.h"

namespace ebbtide::model {

// Whether a pattern chooses a layer as peft has it: it matches the whole path, or what follows one of its dots.
bool MatchesLayerOrItsEnd(const std::string& pattern, const std::string& layer);

// Whether one of the targets chooses a linear layer: by a pattern, or, as peft's "all-linear", any but the one that
// gives the scores of words.
bool IsTarget(const std::string& target, const std::string& layer);

// Whether a linear layer of that path gets an adapter.
bool HasAdapter(const ModelOptions& options, const std::string& layer);

// What the linear layer that the builder is in gives for `x`: its own `result`, and its adapter's where it has one.
TensorId WithAdapter(Builder& builder, TensorId x, TensorId result);

}  // namespace ebbtide::model
