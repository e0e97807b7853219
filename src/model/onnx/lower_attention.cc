// Attention: the pattern of exporters that spell it out, and the operator of opset 23.
#include <algorithm>

#include "model/onnx/lower.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

// Query, key and value as [batch, heads, length, width] that attend to each other.
Status CheckHeads(const Call& call, const Dims& q, const Dims& k, const Dims& v) {
  const bool fits = q.size() == 4 && k.size() == 4 && v.size() == 4 && q[0] == k[0] && k[0] == v[0] && k[1] == v[1] &&
                    q[1] % k[1] == 0 && q[3] == k[3] && k[2] == v[2];
  if (fits) return {};
  return call.Wrong(fmt::format("query {}, key {}, value {}: expected [batch, heads, length, width] that fit together",
                                ShapeText(q), ShapeText(k), ShapeText(v)));
}

// A mask that is the same everywhere hides nothing.
Result<TensorId> Mask(Call& call, std::size_t i, const Dims& q, const Dims& k) {
  if (!call.Has(i)) return TensorId();
  const Dims scores = {q[0], q[1], q[2], k[2]};
  EBB_ASSIGN_OR_RETURN(const Dims shape, call.Shape(i));
  if (Broadcast(shape, scores) != scores || shape.empty()) {
    return call.Wrong(fmt::format("mask {}: expected one that broadcasts to {}", ShapeText(shape), ShapeText(scores)));
  }
  if (call.Number(i)) return TensorId();
  return call.Tensor(i);
}

// One head of keys for several of queries: repeated, as torch does where its kernels cannot share.
TensorId RepeatHeads(Builder& b, TensorId x, std::int64_t heads) {
  const Dims shape = b.shape(x);
  if (shape[1] == heads) return x;
  TensorId spread = op::Expand(b, op::Unsqueeze(b, x, 2), {shape[0], shape[1], heads / shape[1], shape[2], shape[3]});
  return op::Reshape(b, spread, {shape[0], heads, shape[2], shape[3]});
}

// Made by patterns/attention.cc: query, key, value, mask.
Status FusedAttention(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId query, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(TensorId key, call.Tensor(1));
  EBB_ASSIGN_OR_RETURN(TensorId value, call.Tensor(2));
  Builder& b = call.b;
  if (const Dims order = call.Ints("key_order").value_or(Dims{}); !order.empty()) {
    std::vector<int> axes;
    std::vector<bool> seen(4);
    for (std::int64_t wanted : order) {
      const auto axis = NormalAxis(wanted, 4);
      if (!axis || seen[*axis] || b.shape(key).size() != 4) return call.Wrong("key: expected four axes in some order");
      seen[*axis] = true;
      axes.push_back(*axis);
    }
    if (axes.size() != 4) return call.Wrong("key: expected four axes in some order");
    if (!std::ranges::is_sorted(axes)) key = op::Permute(b, key, axes);
  }
  const Dims q = b.shape(query), k = b.shape(key);
  EBB_RETURN_IF_ERROR(CheckHeads(call, q, k, b.shape(value)));
  op::AttentionOptions options;
  EBB_ASSIGN_OR_RETURN(options.mask, Mask(call, 3, q, k));
  options.dropout = call.Float("dropout", 0);
  if (!(options.dropout >= 0 && options.dropout < 1)) return call.Wrong("dropout: expected 0 or more, and less than 1");
  key = RepeatHeads(b, key, q[1]);
  value = RepeatHeads(b, value, q[1]);
  return call.Set(0, op::Attention(b, query, key, value, options));
}

// [batch, length, heads * width] as [batch, heads, length, width].
Result<TensorId> SplitHeads(Call& call, std::size_t i, std::string_view attribute) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(i));
  const Dims shape = call.b.shape(x);
  if (shape.size() == 4) return x;
  const std::int64_t heads = call.Int(attribute, 0);
  if (shape.size() != 3 || heads < 1 || shape[2] % heads != 0) {
    return call.Wrong(fmt::format("input {} {}: expected 4 axes, or 3 with {} that divides the last", i,
                                  ShapeText(shape), attribute));
  }
  TensorId split = op::Reshape(call.b, x, {shape[0], shape[1], heads, shape[2] / heads});
  return op::Transpose(call.b, split, 1, 2);
}

// With what earlier steps have left, along the length.
Result<TensorId> BehindPast(Call& call, std::size_t i, TensorId x) {
  if (!call.Has(i)) return x;
  EBB_ASSIGN_OR_RETURN(TensorId past, call.Tensor(i));
  Dims expected = call.b.shape(x), shape = call.b.shape(past);
  if (shape.size() == 4 && expected.size() == 4) expected[2] = shape[2];
  if (shape != expected)
    return call.Wrong(fmt::format("input {} {}: expected {}", i, ShapeText(shape), ShapeText(expected)));
  return op::Cat(call.b, {past, x}, 2);
}

Status Attention(Call& call) {
  Builder& b = call.b;
  EBB_ASSIGN_OR_RETURN(TensorId query, SplitHeads(call, 0, "q_num_heads"));
  EBB_ASSIGN_OR_RETURN(TensorId key, SplitHeads(call, 1, "kv_num_heads"));
  EBB_ASSIGN_OR_RETURN(TensorId value, SplitHeads(call, 2, "kv_num_heads"));
  EBB_ASSIGN_OR_RETURN(key, BehindPast(call, 4, key));
  EBB_ASSIGN_OR_RETURN(value, BehindPast(call, 5, value));
  const Dims q = b.shape(query), k = b.shape(key);
  EBB_RETURN_IF_ERROR(CheckHeads(call, q, k, b.shape(value)));
  if (call.Wants(1)) EBB_RETURN_IF_ERROR(call.Set(1, key));
  if (call.Wants(2)) EBB_RETURN_IF_ERROR(call.Set(2, value));
  op::AttentionOptions options;
  EBB_ASSIGN_OR_RETURN(options.mask, Mask(call, 3, q, k));
  options.causal = call.Int("is_causal", 0) != 0;
  // With both, torch takes the mask alone.
  if (options.mask.valid()) options.causal = false;
  if (options.mask.valid() || b.on_cuda()) {
    key = RepeatHeads(b, key, q[1]);
    value = RepeatHeads(b, value, q[1]);
  }
  TensorId out = op::Attention(b, query, key, value, options);
  EBB_ASSIGN_OR_RETURN(const Dims given, call.Shape(0));
  if (given.size() == 3) {
    const Dims shape = b.shape(out);
    out = op::Reshape(b, op::Transpose(b, out, 1, 2), {shape[0], shape[2], SaturatingMul(shape[1], shape[3])});
  }
  return call.Set(0, out);
}

constexpr OperatorRow kRules[] = {{"ebbtide.Attention", 3, 4, FusedAttention}, {"Attention", 3, 7, Attention}};

}  // namespace

std::span<const OperatorRow> AttentionRules() { return kRules; }

}  // namespace ebbtide::model::onnx
