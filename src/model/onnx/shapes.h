// Rules of shapes that the folding of constants (fold.h) and the operators themselves (lower.h) share. What does not
// fit is nullopt; the caller says what was expected.
#pragma once

#include <optional>
#include <vector>

#include "model/onnx/file.h"

namespace ebbtide::model::onnx {

using KnownInputs = std::vector<const Array*>;  // one per input of a node; nullptr: left out or not known

// Number of elements of an array whose contents may be followed: small, or of equal elements.
std::optional<std::int64_t> KnownCount(const Dims& shape, bool uniform);

// The shape that Reshape asks for, with 0 (keep) and -1 (infer) resolved.
std::optional<Dims> ResolveReshape(const Dims& from, const Dims& wanted, bool allow_zero);

// The axes of Squeeze, Unsqueeze and the reductions: from the input in later operator sets, else the attribute.
std::optional<Dims> AxesOf(const Node& node, const Array* input);

std::optional<Dims> UnsqueezedShape(const Dims& shape, const Dims& axes);
std::optional<Dims> SqueezedShape(const Dims& shape, const Dims& axes);  // no axes: all of size 1

// The order of axes of a Transpose; without the attribute it is the reverse.
std::optional<std::vector<int>> PermutationOf(const Node& node, std::size_t rank);

// One axis of a Slice, with start and end brought inside it.
struct SliceRange {
  int axis = 0;
  std::int64_t start = 0, step = 1, count = 0;
};
// `inputs` are those of the Slice: data, starts, ends, axes, steps.
std::optional<std::vector<SliceRange>> SliceRanges(const Dims& shape, const KnownInputs& inputs);

}  // namespace ebbtide::model::onnx
