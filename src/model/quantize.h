// Linear layers whose frozen weights are stored in few bits, as the libraries store them:
//
//   nf4    bitsandbytes' Linear4bit with double quantisation (0.43 to 0.49): codes, a byte per 64 weights, and tables
//   int8   bitsandbytes' Linear8bitLt (0.45 to 0.49): a byte per weight, a float per row
//   gptq4  GPTQ, 4 bits, groups of 128, with a group per input (act-order): int32 codes and zeros, 16-bit scales
//   fp8    torchao's float8 weights: a byte per weight, a float per row
//
// All but int8 make the weight anew, 16 bits wide, for every product, in forward and in backward.
#pragma once

#include "model/builder.h"

namespace ebbtide::model {

// Whether the linear layer that the builder is in is stored so: all are but those that give the scores of words.
bool IsQuantized(const Builder& builder);

// The weight [out, in] of that layer as it is stored.
struct StoredWeight {
  std::vector<Argument> arguments;  // codes and tables, which the product reads
  Bytes made_anew = 0;              // of the weight, 16 bits wide
  Bytes table = 0;                  // made anew for that, in float32 (nf4)
};
StoredWeight StoreWeight(Builder& builder, std::int64_t in, std::int64_t out);

// x W' + bias for the layer that the builder is in.
TensorId QuantizedLinear(Builder& builder, TensorId x, std::int64_t features, bool bias);

}  // namespace ebbtide::model
