// What an op makes of operands that ranks have divided: which kind of op it is to tensor parallelism.
#pragma once

#include <cstdint>
#include <string>

namespace ebbtide::parallel {

enum class Rule : std::uint8_t {
  kUnknown,
  kElementwise,
  kReshape,
  kAxes,     // permutations
  kPlaces,   // every axis keeps its place
  kProduct,  // of matrices
  kBatched,  // of stacks of matrices
  kAttention,
  kLookup,
  kLookupBackward,
  kLogSoftmax,
  kLoss,
  kLossBackward
};

// By the op's kind; ops in place are as those that are not.
Rule RuleOf(std::string kind);

}  // namespace ebbtide::parallel
