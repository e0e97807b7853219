// Embeddings, attention and recurrence: the ops whose kernels differ most between CPU and CUDA.
#include <cmath>

#include "model/autocast_rules.h"
#include "model/ops.h"

namespace ebbtide::model::op {

TensorId Embedding(Builder& b, TensorId weight, TensorId indices) {
  Dims shape = b.shape(indices);
  shape.push_back(b.dim(weight, 1));
  return b.CallOne("embedding", {{"weight", weight}, {"indices", indices}}, {shape, b.at(weight).dtype});
}

namespace {

// Heads stand next to each other in memory: [batch, length, heads, width], seen as [batch, heads, length, width].
OutputSpec HeadsInterleaved(const Dims& shape, DType dtype) {
  return {shape, dtype, {shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1}};
}

TensorId AdditiveMask(Builder& b, TensorId mask, DType dtype) {
  if (!mask.valid() || b.at(mask).dtype != DType::kBool) return mask;
  TensorId minus_infinity = Fill(b, "scalar_tensor", {}, dtype);
  TensorId zero = Fill(b, "scalar_tensor", {}, dtype);
  return Where(b, mask, zero, minus_infinity);
}

// Softmax(q k' / sqrt(d)) v, op by op, for what the fused kernels do not take: on the CPU dropout and learnt masks.
TensorId AttentionByParts(Builder& b, TensorId query, TensorId key, TensorId value, const AttentionOptions& options) {
  const DType dtype = b.at(query).dtype;
  const auto for_every_query = [&](TensorId x) {  // heads that queries share, once for each
    const Dims shape = b.shape(x);
    const std::int64_t times = b.dim(query, 1) / shape[1];
    if (times == 1) return x;
    x = Expand(b, Unsqueeze(b, x, 2), {shape[0], shape[1], times, shape[2], shape[3]});
    return Reshape(b, x, {shape[0], shape[1] * times, shape[2], shape[3]});
  };
  key = for_every_query(key);
  value = for_every_query(value);
  TensorId mask = AdditiveMask(b, options.mask, dtype);
  double root_scale = std::sqrt(options.scale.value_or(1 / std::sqrt(static_cast<double>(b.dim(query, -1)))));
  TensorId scaled_query = WithScalar(b, "mul", query, root_scale);
  if (options.causal) {
    Dims square{b.dim(query, -2), b.dim(key, -2)};
    mask = AdditiveMask(b, Unary(b, "tril", Fill(b, "ones", square, DType::kBool)), dtype);
  }
  TensorId scaled_key = WithScalar(b, "mul", Transpose(b, key, -2, -1), root_scale);
  TensorId scores = Matmul(b, scaled_query, scaled_key);
  if (mask.valid()) scores = BinaryInPlace(b, "add_", scores, mask);
  TensorId weights =
      b.CallOne("_safe_softmax", {{"self", scores}, {"dim", std::int64_t{-1}}}, {b.shape(scores), b.at(scores).dtype});
  return Matmul(b, Dropout(b, weights, options.dropout), value);
}

// The memory-efficient kernel reads a bias per head whose rows begin at multiples of 8 elements.
TensorId AlignedBias(Builder& b, TensorId mask, const Dims& scores) {
  if (!mask.valid()) return mask;
  constexpr std::int64_t kAlignment = 8;
  const Tensor& tensor = b.at(mask);
  bool aligned = tensor.stride.back() == 1;
  for (std::size_t i = 0; i + 1 < tensor.stride.size(); ++i) aligned &= tensor.stride[i] % kAlignment == 0;
  if (!aligned) {
    std::int64_t row = tensor.shape.back();
    mask = Slice(b, ConstantPad(b, mask, {0, kAlignment - row % kAlignment}), -1, 0, row);
  }
  return Expand(b, mask, scores);
}

Value ScaleArgument(const AttentionOptions& options) { return options.scale ? Value{*options.scale} : Value{}; }

TensorId AttentionOnCpu(Builder& b, TensorId query, TensorId key, TensorId value, const AttentionOptions& options,
                        const OutputSpec& result) {
  const Dims& shape = result.shape;
  TensorId mask = AdditiveMask(b, options.mask, result.dtype);
  OutputSpec log_sum_exp{{shape[0], shape[1], shape[2]}, DType::kFloat32, {shape[1] * shape[2], 1, shape[1]}};
  return b.Call("_scaled_dot_product_flash_attention_for_cpu",
                {{"query", query},
                 {"key", key},
                 {"value", value},
                 {"dropout_p", 0.0},
                 {"is_causal", options.causal},
                 {"attn_mask", mask},
                 {"scale", ScaleArgument(options)}},
                {result, log_sum_exp})[0];
}

TensorId AttentionOnCuda(Builder& b, TensorId query, TensorId key, TensorId value, const AttentionOptions& options,
                         const OutputSpec& result) {
  const Dims& shape = result.shape;
  OutputSpec seed{{}, DType::kInt64};
  CallOptions random{{}, options.dropout > 0};
  bool half = result.dtype == DType::kFloat16 || result.dtype == DType::kBFloat16;
  const bool same_width = b.dim(query, 3) == b.dim(value, 3);  // else flash attention does not take it
  if (half && same_width && !options.mask.valid()) {
    return b.Call("_scaled_dot_product_flash_attention",
                  {{"query", query},
                   {"key", key},
                   {"value", value},
                   {"dropout_p", options.dropout},
                   {"is_causal", options.causal},
                   {"scale", ScaleArgument(options)}},
                  {result, {{shape[0], shape[1], shape[2]}, DType::kFloat32}, {{2}, DType::kInt64}, seed}, random)[0];
  }
  TensorId bias =
      AlignedBias(b, AdditiveMask(b, options.mask, result.dtype), {shape[0], shape[1], shape[2], b.dim(key, 2)});
  // Row statistics are kept for a multiple of 32 queries.
  std::int64_t rows = b.inference() ? 0 : (shape[2] + 31) / 32 * 32;
  return b.Call("_scaled_dot_product_efficient_attention",
                {{"query", query},
                 {"key", key},
                 {"value", value},
                 {"attn_bias", bias},
                 {"compute_log_sumexp", !b.inference()},
                 {"dropout_p", options.dropout},
                 {"is_causal", options.causal},
                 {"scale", ScaleArgument(options)}},
                {result, {{shape[0], shape[1], rows}, DType::kFloat32}, seed, seed}, random)[0];
}

}  // namespace

TensorId Attention(Builder& b, TensorId query, TensorId key, TensorId value, const AttentionOptions& in_training) {
  AttentionOptions options = in_training;
  Autocast(b, "scaled_dot_product_attention", {&query, &key, &value, &options.mask});
  if (b.inference()) options.dropout = 0;
  Dims shape = b.shape(query);
  shape[3] = b.dim(value, 3);
  DType dtype = b.at(query).dtype;
  if (b.on_cuda()) {
    OutputSpec result = HeadsInterleaved(shape, dtype);
    bool fused = !options.mask.valid() || b.at(options.mask).stride.back() == 1;  // its rows are read as they lie
    return fused ? AttentionOnCuda(b, query, key, value, options, result)
                 : AttentionByParts(b, query, key, value, options);
  }
  const bool same_width = b.dim(query, 3) == b.dim(value, 3);
  if (options.dropout > 0 || b.NeedsGrad(options.mask) || !same_width)
    return AttentionByParts(b, query, key, value, options);
  // The CPU's kernel lays its result out as the query is.
  return AttentionOnCpu(b, query, key, value, options, {shape, dtype, StrideLike(b.at(query), shape)});
}

namespace {

// One fused call per layer on the CPU; its workspace is private to oneDNN.
TensorId LstmLayerOnCpu(Builder& b, TensorId x, const LstmWeights& weights, TensorId hx, TensorId cx) {
  std::int64_t batch = b.dim(x, 1), hidden = b.dim(weights.hidden, 1);
  OutputSpec state{{batch, hidden}, b.at(x).dtype};
  return b.Call("mkldnn_rnn_layer",
                {{"input", x},
                 {"weight0", weights.input},
                 {"weight1", weights.hidden},
                 {"weight2", weights.input_bias},
                 {"weight3", weights.hidden_bias},
                 {"hx_", hx},
                 {"cx_", cx}},
                {{{b.dim(x, 0), batch, hidden}, b.at(x).dtype}, state, state, {{0}, DType::kUInt8}})[0];
}

// One call for all layers; the reserve keeps four gates, the cell and its tanh of every step, and the dropout masks.
TensorId LstmOnCuda(Builder& b, TensorId x, const std::vector<LstmWeights>& layers, TensorId hx, TensorId cx,
                    double dropout) {
  std::int64_t length = b.dim(x, 0), batch = b.dim(x, 1), hidden = b.dim(layers[0].hidden, 1);
  std::int64_t depth = static_cast<std::int64_t>(layers.size());
  Autocast(b, "_cudnn_rnn", {&x, &hx, &cx});
  std::vector<TensorId> weights;
  std::int64_t weight_count = 0;
  for (const LstmWeights& layer : layers) {
    for (TensorId id : {layer.input, layer.hidden, layer.input_bias, layer.hidden_bias}) {
      Autocast(b, "_cudnn_rnn", {&id});
      weights.push_back(id);
      weight_count += ElementCount(b.shape(id));
    }
  }
  OutputSpec state{{depth, batch, hidden}, b.at(x).dtype};
  std::int64_t cells = length * batch * hidden;
  if (b.inference()) dropout = 0;
  std::int64_t kept = b.inference() ? 0 : 6 * depth + (dropout > 0 ? depth - 1 : 0);
  std::int64_t reserve = cells * ItemSize(b.at(x).dtype) * kept;
  return b.Call("_cudnn_rnn",
                {{"input", x}, {"weight", TensorList{weights}}, {"hx", hx}, {"cx", cx}, {"dropout", dropout}},
                {{{length, batch, hidden}, b.at(x).dtype},
                 state,
                 state,
                 {{reserve}, DType::kUInt8},
                 {{weight_count}, b.at(x).dtype}},
                {{}, dropout > 0})[0];
}

}  // namespace

TensorId Lstm(Builder& b, TensorId x, const std::vector<LstmWeights>& layers, double dropout) {
  std::int64_t depth = static_cast<std::int64_t>(layers.size());
  Dims state = {depth, b.dim(x, 1), b.dim(layers[0].hidden, 1)};
  TensorId hx = Fill(b, "zeros", state, b.at(x).dtype), cx = Fill(b, "zeros", state, b.at(x).dtype);
  if (b.on_cuda()) return LstmOnCuda(b, x, layers, hx, cx, dropout);
  for (std::int64_t i = 0; i < depth; ++i) {
    if (i > 0) x = Dropout(b, x, dropout);
    TensorId hidden = Select(b, hx, 0, i);
    x = LstmLayerOnCpu(b, x, layers[i], hidden, Select(b, cx, 0, i));
  }
  return x;
}

}  // namespace ebbtide::model::op
