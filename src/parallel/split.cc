// The table of matrices, and the arithmetic of axes.
#include "parallel/split.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ebbtide::parallel {
namespace {

// Modules of transformers' decoders, of torchtitan and of Megatron's papers. Fused ones (c_attn, qkv_proj) interleave
// what would have to be divided apart, and are not here.
constexpr std::array<std::pair<const char*, MatrixRole>, 26> kMatrices = {{
    {"q_proj", MatrixRole::kColumn},
    {"k_proj", MatrixRole::kColumn},
    {"v_proj", MatrixRole::kColumn},
    {"gate_proj", MatrixRole::kColumn},
    {"up_proj", MatrixRole::kColumn},
    {"fc1", MatrixRole::kColumn},
    {"c_fc", MatrixRole::kColumn},
    {"wq", MatrixRole::kColumn},
    {"wk", MatrixRole::kColumn},
    {"wv", MatrixRole::kColumn},
    {"w1", MatrixRole::kColumn},
    {"w3", MatrixRole::kColumn},
    {"dense_h_to_4h", MatrixRole::kColumn},
    {"lm_head", MatrixRole::kColumn},
    {"embed_out", MatrixRole::kColumn},
    {"o_proj", MatrixRole::kRow},
    {"down_proj", MatrixRole::kRow},
    {"out_proj", MatrixRole::kRow},
    {"fc2", MatrixRole::kRow},
    {"wo", MatrixRole::kRow},
    {"w2", MatrixRole::kRow},
    {"dense_4h_to_h", MatrixRole::kRow},
    {"embed_tokens", MatrixRole::kTable},
    {"tok_embeddings", MatrixRole::kTable},
    {"wte", MatrixRole::kTable},
    {"embed_in", MatrixRole::kTable},
}};

std::int64_t Product(const Dims& dims, std::size_t begin, std::size_t end) {
  std::int64_t product = 1;
  for (std::size_t i = begin; i < end; ++i) product *= dims[i];
  return product;
}

}  // namespace

MatrixRole RoleOf(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  if (dot == std::string::npos) return MatrixRole::kNone;
  std::string module = parameter.substr(0, dot);
  if (module.ends_with(".base_layer")) module.resize(module.rfind('.'));  // as peft calls what has an adapter
  const std::string last = module.substr(module.rfind('.') + 1);
  const auto found = std::ranges::find_if(kMatrices, [&](const auto& row) { return row.first == last; });
  return found == kMatrices.end() ? MatrixRole::kNone : found->second;
}

bool IsAdapter(const std::string& name) { return name.find(".lora_") != std::string::npos; }

Split SplitOfParameter(const std::string& parameter, const Dims& shape) {
  if (IsAdapter(parameter)) {
    // The narrow side is whole on every rank; the other goes with the matrix.
    const MatrixRole role = RoleOf(parameter.substr(0, parameter.find(".lora_")) + ".weight");
    const bool is_second = parameter.find(".lora_B") != std::string::npos;
    if (role == MatrixRole::kColumn && is_second) return {SplitKind::kFeatures, 0};
    if (role == MatrixRole::kRow && !is_second) return {SplitKind::kFeatures, 1};
    return {};
  }
  switch (RoleOf(parameter)) {
    case MatrixRole::kNone: return {};
    case MatrixRole::kColumn:
    case MatrixRole::kTable: return {SplitKind::kFeatures, 0};
    case MatrixRole::kRow: return shape.size() == 2 ? Split{SplitKind::kFeatures, 1} : Split{};
  }
  return {};
}

std::optional<Split> Reshaped(const Split& split, const Dims& from, const Dims& to) {
  if (!split.divides()) return split;
  // Both shapes fall into groups of axes with the same number of elements.
  for (std::size_t i = 0, j = 0; i < from.size() || j < to.size();) {
    const std::size_t i0 = i, j0 = j;
    std::int64_t a = i < from.size() ? from[i++] : 1, b = j < to.size() ? to[j++] : 1;
    while (a != b) {
      if (a < b) {
        if (i == from.size()) return std::nullopt;
        a *= from[i++];
      } else {
        if (j == to.size()) return std::nullopt;
        b *= to[j++];
      }
    }
    // Axes of one element end the group that they stand before.
    while (i < from.size() && from[i] == 1 && i + 1 <= split.axis) ++i;
    if (split.axis < i0 || split.axis >= i) continue;
    // Of tokens the last axis of the group is the sequence, before it are samples; of features the first one that is
    // more than one element holds heads. Samples and heads in one axis: the heads are the last.
    const bool takes_last = split.kind == SplitKind::kSequence || (j0 == 0 && j - j0 > 1 && i - i0 == 1);
    std::optional<std::size_t> axis;
    for (std::size_t k = j0; k < j; ++k) {
      if (to[k] > 1 && (!axis || takes_last)) axis = k;
    }
    if (!axis) return std::nullopt;
    return Split{split.kind, *axis};
  }
  return std::nullopt;
}

std::optional<Split> Broadcast(const Split& split, const Dims& from, const Dims& to) {
  if (!split.divides()) return split;
  const std::size_t from_end = from.size() - split.axis;
  if (from_end > to.size() || to[to.size() - from_end] != from[split.axis]) return std::nullopt;
  return Split{split.kind, to.size() - from_end};
}

std::optional<Split> InPlaceOfAxis(const Split& split, const Dims& from, const Dims& to) {
  if (!split.divides()) return split;
  if (split.axis < to.size() && to[split.axis] == from[split.axis]) return split;
  const bool is_sum = Product(to, 0, to.size()) <= Product(from, 0, from.size()) / from[split.axis];
  return is_sum ? std::optional(Split{SplitKind::kPartial, 0}) : std::nullopt;
}

std::optional<Tensor> Cut(const Tensor& tensor, const Split& split, std::int64_t ranks) {
  Tensor cut = tensor;
  if (!split.divides()) return cut;
  const std::int64_t length = tensor.shape[split.axis], stride = tensor.stride[split.axis];
  if (length % ranks != 0) return std::nullopt;
  cut.shape[split.axis] = length / ranks;
  for (std::size_t i = 0; i < cut.stride.size(); ++i) {
    if (i != split.axis && tensor.stride[i] >= stride * length) cut.stride[i] = tensor.stride[i] / ranks;
  }
  if (tensor.offset >= stride * length) cut.offset = tensor.offset / ranks;
  return cut;
}

}  // namespace ebbtide::parallel
