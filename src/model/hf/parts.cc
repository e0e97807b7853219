// Norms, linear layers, activations and the dense MLP.
#include "model/hf/parts.h"

#include <map>

#include "model/hf/kernels.h"
#include "model/lora.h"
#include "model/quantize.h"
#include "model/zoo/language.h"

namespace ebbtide::model::hf {
namespace {

// olmo2 and gpt-oss round once, behind the product with the weight.
TensorId WideRmsNorm(Builder& b, const std::string& name, TensorId x) {
  auto layer = b.Enter(name);
  TensorId weight = b.Parameter("weight", {b.dim(x, -1)});
  const DType dtype = b.at(x).dtype;
  x = op::Cast(b, x, DType::kFloat32);
  TensorId variance = op::Mean(b, op::Unary(b, "pow", x, {{"exponent", std::int64_t{2}}}), {-1}, true);
  TensorId scale = op::Unary(b, "rsqrt", op::WithScalar(b, "add", variance, 1e-6));
  return op::Cast(b, op::Mul(b, weight, op::Mul(b, x, scale)), dtype);
}

TensorId BareLayerNorm(Builder& b, const std::string& name, TensorId x) {
  auto layer = b.Enter(name);
  const DType dtype = b.at(x).dtype;
  x = op::Cast(b, x, DType::kFloat32);
  Dims statistics = b.shape(x);
  statistics.back() = 1;
  x = b.Call("native_layer_norm", {{"input", x}, {"normalized_shape", Dims{b.dim(x, -1)}}},
             {{b.shape(x), DType::kFloat32}, {statistics, DType::kFloat32}, {statistics, DType::kFloat32}})[0];
  return op::Cast(b, x, dtype);
}

TensorId Silu(Builder& b, TensorId x) { return op::Unary(b, "silu", x); }
TensorId QuickGelu(Builder& b, TensorId x) {
  return op::Mul(b, x, op::Unary(b, "sigmoid", op::WithScalar(b, "mul", x, 1.702)));
}
TensorId Tanh(Builder& b, TensorId x) { return op::Unary(b, "tanh", x); }

const std::map<std::string, TensorId (*)(Builder&, TensorId)>& Activations() {
  static const auto* all = new std::map<std::string, TensorId (*)(Builder&, TensorId)>{
      {"silu", Silu},     {"swish", Silu},
      {"gelu", op::Gelu}, {"gelu_pytorch_tanh", op::GeluTanh},
      {"relu", op::Relu}, {"gelu_new", zoo::NewGelu},
      {"tanh", Tanh},     {"quick_gelu", QuickGelu},
  };
  return *all;
}

}  // namespace

TensorId Norm(Builder& b, NormKind kind, const std::string& name, TensorId x) {
  switch (kind) {
    case NormKind::kRms:
      return b.options().kernels == KernelSet::kPlain ? zoo::RmsNorm(b, name, x) : FusedRmsNorm(b, name, x);
    case NormKind::kRmsOffset: return zoo::RmsNorm(b, name, x, true);
    case NormKind::kRmsWide: return WideRmsNorm(b, name, x);
    case NormKind::kLayer: return nn::LayerNorm(b, name, x);
    case NormKind::kLayerBare: return BareLayerNorm(b, name, x);
  }
  return x;
}

TensorId Linear(Builder& b, const std::string& name, TensorId x, std::int64_t features, bool bias, bool conv1d) {
  if (!conv1d) return nn::Linear(b, name, x, features, bias);
  auto layer = b.Enter(name);
  if (IsQuantized(b)) return WithAdapter(b, x, QuantizedLinear(b, x, features, bias));
  const TensorId weight = b.Parameter("weight", {b.dim(x, -1), features});
  Dims shape = b.shape(x);
  shape.back() = features;
  TensorId out = op::Addmm(b, b.Parameter("bias", {features}), op::Reshape(b, x, {-1, b.dim(x, -1)}), weight);
  return WithAdapter(b, x, op::Reshape(b, out, shape));
}

bool IsActivation(const std::string& name) { return Activations().contains(name); }

TensorId Activate(Builder& b, const std::string& activation, TensorId x) { return Activations().at(activation)(b, x); }

TensorId Capped(Builder& b, TensorId x, double cap) {
  if (cap == 0) return x;
  return op::WithScalar(b, "mul", op::Unary(b, "tanh", op::WithScalar(b, "div", x, cap)), cap);
}

TensorId Mlp(Builder& b, const Decoder& model, TensorId x, std::int64_t hidden) {
  const Names& names = model.names;
  const auto linear = [&](const char* name, TensorId in, std::int64_t features) {
    return Linear(b, name, in, features, model.mlp_bias, model.conv1d);
  };
  const auto activate = [&](TensorId in) { return Activate(b, model.activation, in); };
  if (model.mlp == MlpKind::kPlain) return linear(names.down, activate(linear(names.up, x, hidden)), model.width);
  if (model.mlp == MlpKind::kGatedFused) {
    const std::vector<TensorId> parts = op::Chunk(b, linear(names.gate, x, 2 * hidden), 2, -1);
    const TensorId gate = activate(parts[0]);
    return linear(names.down, op::Mul(b, parts[1], gate), model.width);
  }
  if (b.options().kernels == KernelSet::kLiger && model.activation == "silu") {
    const TensorId gate = linear(names.gate, x, hidden);
    return linear(names.down, FusedGate(b, gate, linear(names.up, x, hidden)), model.width);
  }
  const TensorId gate = activate(linear(names.gate, x, hidden));
  return linear(names.down, op::Mul(b, gate, linear(names.up, x, hidden)), model.width);
}

}  // namespace ebbtide::model::hf
