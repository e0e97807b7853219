// Mixtures of experts as transformers computes them: since 5.0 tokens are sorted by their experts, and all experts are
// one grouped product, whose size does not depend on the router. Before, experts ran one after another, each on the
// tokens that the router gave it: as many for each, or (RoutingCase::kWorst) all tokens for as few as there can be.
#include <algorithm>

#include "model/hf/parts.h"

namespace ebbtide::model::hf {
namespace {

struct Routing {
  TensorId weights, experts;  // [tokens, per_token]
};

TensorId TopK(Builder& b, TensorId x, std::int64_t count, TensorId* indices) {
  Dims shape = b.shape(x);
  shape.back() = count;
  const std::vector<TensorId> both = b.Call("topk", {{"self", x}, {"k", count}, {"dim", std::int64_t{-1}}},
                                            {{shape, b.at(x).dtype}, {shape, DType::kInt64}});
  *indices = both[1];
  return both[0];
}

// The scores of experts outside the best groups are covered up.
TensorId OfBestGroups(Builder& b, const Experts& experts, TensorId scores, bool by_two) {
  const std::int64_t tokens = b.dim(scores, 0);
  TensorId grouped = op::Reshape(b, scores, {tokens, experts.groups, -1}), unused;
  TensorId best;
  if (by_two) {
    best = op::Sum(b, TopK(b, grouped, 2, &unused), {-1}, false);
  } else {
    best = TopK(b, grouped, 1, &unused);
    best = op::Squeeze(b, best, -1);
  }
  TensorId chosen;
  TopK(b, best, experts.best_groups, &chosen);
  TensorId mask = op::Unary(b, "zeros_like", best);
  b.set_needs_grad(mask, false);
  mask = b.InPlace("scatter_", mask, {{"index", chosen}});
  mask = op::Expand(b, op::Unsqueeze(b, mask, -1), {tokens, experts.groups, experts.count / experts.groups});
  mask = op::Cast(b, op::Reshape(b, mask, {tokens, experts.count}), DType::kBool);
  mask = op::Unary(b, "bitwise_not", mask);
  return b.CallOne("masked_fill", {{"self", scores}, {"mask", mask}}, {b.shape(scores), b.at(scores).dtype});
}

TensorId Normed(Builder& b, TensorId weights) {
  return op::BinaryInPlace(b, "div_", weights, op::Sum(b, weights, {-1}, true));
}

Routing Route(Builder& b, const Decoder& model, TensorId x) {
  const Experts& experts = model.experts;
  auto layer = b.Enter(model.names.router);
  TensorId weight = b.Parameter("weight", {experts.count, model.width});
  TensorId bias = experts.bias ? b.Parameter("bias", {experts.count}) : TensorId();
  const bool wide = experts.router == RouterKind::kGroupedSoftmax || experts.router == RouterKind::kGroupedSigmoid;
  const DType dtype = b.at(x).dtype;
  TensorId scores = wide ? op::Linear(b, op::Cast(b, x, DType::kFloat32), op::Cast(b, weight, DType::kFloat32))
                         : op::Linear(b, x, weight, bias);
  Routing out;
  switch (experts.router) {
    case RouterKind::kTopFirst: {
      TensorId best = TopK(b, scores, experts.per_token, &out.experts);
      if (!experts.bias) best = op::Cast(b, best, DType::kFloat32);
      out.weights = op::Cast(b, op::Softmax(b, best, 1), dtype);
      return out;
    }
    case RouterKind::kSoftmax:
      scores = op::Softmax(b, op::Cast(b, scores, DType::kFloat32), -1);
      out.weights = TopK(b, scores, experts.per_token, &out.experts);
      if (experts.normed) out.weights = Normed(b, out.weights);
      if (experts.in_model_type) out.weights = op::Cast(b, out.weights, dtype);
      return out;
    case RouterKind::kGroupedSoftmax:
      scores = op::Softmax(b, scores, -1);
      if (experts.by_groups) scores = OfBestGroups(b, experts, scores, false);
      out.weights = TopK(b, scores, experts.per_token, &out.experts);
      out.weights = op::WithScalar(b, "mul", out.weights, 1);
      return out;
    case RouterKind::kGroupedSigmoid: {
      scores = op::Unary(b, "sigmoid", scores);
      TensorId choice = op::Add(b, scores, b.Buffer("e_score_correction_bias", {experts.count}));
      choice = OfBestGroups(b, experts, choice, true);
      TopK(b, choice, experts.per_token, &out.experts);
      out.weights = b.CallOne("gather", {{"self", scores}, {"dim", std::int64_t{1}}, {"index", out.experts}},
                              {{b.dim(x, 0), experts.per_token}, b.at(scores).dtype});
      if (experts.normed) {
        TensorId sum = op::WithScalar(b, "add", op::Sum(b, out.weights, {-1}, true), 1e-20);
        out.weights = op::BinaryInPlace(b, "div_", out.weights, sum);
      }
      out.weights = op::WithScalar(b, "mul", out.weights, 1);
      return out;
    }
  }
  return out;
}

TensorId Indexed(Builder& b, TensorId x, TensorId index) {
  Dims shape = b.shape(x);
  shape[0] = b.dim(index, 0);
  return b.CallOne("index", {{"self", x}, {"indices", TensorList{{index}}}}, {shape, b.at(x).dtype});
}

// Rows of `x`, sorted by expert, times the weight of each one's expert. `stored_in_out`: as [experts, in, out].
TensorId GroupedLinear(Builder& b, const char* name, TensorId x, std::int64_t count, std::int64_t features,
                       TensorId offsets, bool stored_in_out) {
  const std::int64_t in = b.dim(x, -1);
  TensorId weight = b.Parameter(name, stored_in_out ? Dims{count, in, features} : Dims{count, features, in});
  if (!stored_in_out) weight = op::Transpose(b, weight, 1, 2);
  x = op::Cast(b, x, b.at(weight).dtype);
  return b.CallOne("_grouped_mm", {{"self", x}, {"mat2", weight}, {"offs", offsets}},
                   {{b.dim(x, 0), features}, b.at(x).dtype});
}

TensorId WithBias(Builder& b, const char* name, TensorId x, std::int64_t count, TensorId experts) {
  TensorId bias = b.Parameter(name, {count, b.dim(x, -1)});
  return op::BinaryInPlace(b, "add_", x, Indexed(b, bias, experts));
}

// gpt-oss: halves are interleaved and clamped, and the gate has a sigmoid of its own.
TensorId ClampedGate(Builder& b, TensorId x) {
  const std::int64_t width = b.dim(x, -1);
  TensorId gate = op::Slice(b, x, -1, 0, width, 2), up = op::Slice(b, x, -1, 1, width, 2);
  gate = op::Unary(b, "clamp", gate);
  up = op::Unary(b, "clamp", up);
  TensorId sigmoid = op::Unary(b, "sigmoid", op::WithScalar(b, "mul", gate, 1.702));
  TensorId glu = op::Mul(b, gate, sigmoid);
  return op::Mul(b, op::WithScalar(b, "add", up, 1), glu);
}

TensorId RunExperts(Builder& b, const Decoder& model, TensorId x, const Routing& routing) {
  const Experts& experts = model.experts;
  auto layer = b.Enter("experts");
  const std::int64_t tokens = b.dim(x, 0), rows = tokens * experts.per_token;
  TensorId weights = op::Reshape(b, routing.weights, {rows}), ids = op::Reshape(b, routing.experts, {rows});
  const std::vector<TensorId> sorted =
      b.Call("sort", {{"self", ids}}, {{{rows}, DType::kInt64}, {{rows}, DType::kInt64}});
  TensorId order = sorted[1];
  TensorId selected = Indexed(b, x, op::WithScalar(b, "floor_divide", order, static_cast<double>(experts.per_token)));
  weights = Indexed(b, weights, order);
  TensorId counted = op::Cast(b, sorted[0], b.on_cuda() ? DType::kInt32 : DType::kFloat32);
  counted = b.CallOne("histc", {{"self", counted}}, {{experts.count}, b.at(counted).dtype});
  TensorId offsets =
      b.CallOne("cumsum", {{"self", counted}, {"dim", std::int64_t{0}}}, {{experts.count}, DType::kInt32});
  const bool in_out = experts.clamped;
  TensorId hidden = GroupedLinear(b, "gate_up_proj", selected, experts.count, 2 * experts.hidden, offsets, in_out);
  if (experts.bias) hidden = WithBias(b, "gate_up_proj_bias", hidden, experts.count, sorted[0]);
  if (experts.clamped) {
    hidden = ClampedGate(b, hidden);
  } else {
    const std::vector<TensorId> halves = op::Chunk(b, hidden, 2, -1);
    hidden = op::Mul(b, Activate(b, model.activation, halves[0]), halves[1]);
  }
  TensorId out = GroupedLinear(b, "down_proj", hidden, experts.count, model.width, offsets, in_out);
  if (experts.bias) out = WithBias(b, "down_proj_bias", out, experts.count, sorted[0]);
  out = op::Mul(b, out, op::Unsqueeze(b, weights, -1));
  TensorId back = b.CallOne("empty_like", {{"self", order}}, {{rows}, DType::kInt64});
  back = b.InPlace("index_put_", back, {{"indices", TensorList{{order}}}, {"values", op::Arange(b, rows)}});
  out = op::Reshape(b, Indexed(b, out, back), {tokens, experts.per_token, model.width});
  return op::Cast(b, op::Sum(b, out, {1}, false), b.at(x).dtype);
}

// The rows of the i-th expert.
std::int64_t RowsOf(const Experts& experts, RoutingCase routing, std::int64_t tokens, std::int64_t index) {
  if (routing == RoutingCase::kWorst) return index < experts.per_token ? tokens : 0;
  const std::int64_t all = tokens * experts.per_token;
  return all / experts.count + (index < all % experts.count ? 1 : 0);
}

TensorId RunExpertsInLoop(Builder& b, const Decoder& model, TensorId x, const Routing& routing) {
  const Experts& experts = model.experts;
  const std::int64_t tokens = b.dim(x, 0);
  TensorId out = op::Fill(b, "zeros", b.shape(x), b.at(x).dtype);
  const Dims mask = {experts.count, experts.per_token, tokens};
  TensorId chosen = b.CallOne("one_hot", {{"self", routing.experts}}, {mask, DType::kInt64});
  for (std::int64_t i = 0; i < experts.count; ++i) {
    auto layer = b.Enter(fmt::format("experts.{}", i));
    const std::int64_t rows = RowsOf(experts, b.options().routing, tokens, i);
    const std::vector<TensorId> found = b.Call("nonzero_numpy", {{"self", op::Select(b, chosen, 0, i)}},
                                               {{{rows}, DType::kInt64}, {{rows}, DType::kInt64}});
    if (rows == 0) {  // its weights are there all the same
      const TensorId none = Indexed(b, x, found[1]);
      Mlp(b, model, none, experts.hidden);
      continue;
    }
    TensorId result = Mlp(b, model, Indexed(b, x, found[1]), experts.hidden);
    TensorId weights = b.CallOne("index", {{"self", routing.weights}, {"indices", TensorList{{found[1], found[0]}}}},
                                 {{rows}, b.at(routing.weights).dtype});
    result = op::Cast(b, op::Mul(b, result, op::Unsqueeze(b, weights, -1)), b.at(x).dtype);
    out = b.InPlace("index_add_", out, {{"index", found[1]}, {"source", result}});
  }
  return out;
}

TensorId Compute(Builder& b, const Decoder& model, TensorId x, const Routing& routing) {
  const bool in_loop = b.options().transformers < LibraryVersion{5, 0} && !model.experts.clamped;
  return in_loop ? RunExpertsInLoop(b, model, x, routing) : RunExperts(b, model, x, routing);
}

// The expert that every token takes.
TensorId SharedExpert(Builder& b, const Decoder& model, TensorId x) {
  auto layer = b.Enter(model.experts.shared_gated ? "shared_expert" : "shared_experts");
  return Mlp(b, model, x, model.experts.shared_hidden);
}

}  // namespace

TensorId MixtureOfExperts(Builder& b, const Decoder& model, TensorId x) {
  const Experts& experts = model.experts;
  const Dims shape = b.shape(x);
  TensorId rows = op::Reshape(b, x, {-1, model.width});
  if (experts.shared_hidden > 0 && experts.shared_gated) {  // qwen2-moe computes it first
    TensorId shared = SharedExpert(b, model, rows);
    TensorId out = Compute(b, model, rows, Route(b, model, rows));
    TensorId gate = op::Unary(b, "sigmoid", nn::Linear(b, "shared_expert_gate", rows, 1, false));
    return op::Reshape(b, op::Add(b, out, op::Mul(b, gate, shared)), shape);
  }
  const Routing routing = Route(b, model, rows);
  TensorId out = op::Reshape(b, Compute(b, model, rows, routing), shape);
  if (experts.shared_hidden > 0) out = op::Add(b, out, SharedExpert(b, model, x));
  return out;
}

}  // namespace ebbtide::model::hf
