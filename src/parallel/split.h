// How a tensor of the whole model lies on ranks that share its matrices, and what ops make of that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graph/graph.h"

namespace ebbtide::parallel {

enum class SplitKind : std::uint8_t {
  kWhole,     // every rank has all of it
  kFeatures,  // an axis of heads, hidden features or classes is divided
  kSequence,  // an axis of tokens is divided
  kPartial    // every rank has a summand of all of it
};

struct Split {
  SplitKind kind = SplitKind::kWhole;
  std::size_t axis = 0;  // the divided one

  bool divides() const { return kind == SplitKind::kFeatures || kind == SplitKind::kSequence; }
  bool operator==(const Split&) const = default;
};

// Matrices by the name of their module, as torch's plans of parallelize_module and transformers' `tp_plan` have them.
enum class MatrixRole : std::uint8_t { kNone, kColumn, kRow, kTable };
MatrixRole RoleOf(const std::string& parameter);

// Whether a parameter or layer is of a LoRA adapter, as peft names them: "q_proj.lora_A.default".
bool IsAdapter(const std::string& name);

// How a parameter of that name and shape is divided. Of adapters beside a matrix divided by results the second factor
// is, of those beside one divided by operands the first.
Split SplitOfParameter(const std::string& parameter, const Dims& shape);

// ---- How a result lies, by how an operand does; nullopt: it cannot be told.
// The same elements in another shape.
std::optional<Split> Reshaped(const Split& split, const Dims& from, const Dims& to);
// An element-wise op, aligned at the last axis.
std::optional<Split> Broadcast(const Split& split, const Dims& from, const Dims& to);
// Axes keep their places; the divided one must keep its length. Summed up over it, the result is a summand.
std::optional<Split> InPlaceOfAxis(const Split& split, const Dims& from, const Dims& to);

// A tensor and its strides with the divided axis cut; nullopt: its length is no multiple of the ranks.
std::optional<Tensor> Cut(const Tensor& tensor, const Split& split, std::int64_t ranks);

}  // namespace ebbtide::parallel
