// Linear layers and their adapters in one function, as fms-acceleration has them for 4-bit weights (unsloth's):
// queries, keys and values together, and what is behind the attention by itself. Backward is written by hand: it keeps
// the input and what dropout made of it, and no masks.
#pragma once

#include <initializer_list>
#include <vector>

#include "model/builder.h"

namespace ebbtide::model::hf {

struct FusedLayer {
  const char* name;  // below the layer that the builder is in
  std::int64_t features;
};

// Whether these are computed so: all are stored in 4 bits and all have adapters.
bool AreFused(Builder& builder, std::initializer_list<FusedLayer> layers);

// What each of them gives for x, its adapter's part in it.
std::vector<TensorId> FusedLinears(Builder& builder, TensorId x, std::initializer_list<FusedLayer> layers, bool bias);

}  // namespace ebbtide::model::hf
