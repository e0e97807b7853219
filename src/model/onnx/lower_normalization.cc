// Normalisation. Batch norm is that of the step, whatever the mode the file was made in: in training it computes the
// batch's statistics and updates the running ones, which are buffers of their layer.
#include "model/onnx/lower.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

// A weight or bias of that shape.
Result<TensorId> Weight(Call& call, std::size_t i, const Dims& expected) {
  EBB_ASSIGN_OR_RETURN(const Dims shape, call.Shape(i));
  if (shape != expected) {
    return call.Wrong(fmt::format("input {} {}: expected {}", i, ShapeText(shape), ShapeText(expected)));
  }
  return call.Tensor(i);
}

Result<TensorId> OptionalWeight(Call& call, std::size_t i, const Dims& expected) {
  if (!call.Has(i)) return TensorId();
  return Weight(call, i, expected);
}

Status CheckAxes(const Call& call, const Dims& shape, std::size_t least) {
  if (shape.size() >= least) return {};
  return call.Wrong(fmt::format("input {}: expected at least {} axes", ShapeText(shape), least));
}

Status BatchNormalization(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  Builder& b = call.b;
  EBB_RETURN_IF_ERROR(CheckAxes(call, b.shape(x), 2));
  const Dims channels = {b.dim(x, 1)};
  op::BatchNormState state;
  EBB_ASSIGN_OR_RETURN(state.weight, Weight(call, 1, channels));
  EBB_ASSIGN_OR_RETURN(state.bias, Weight(call, 2, channels));
  for (std::size_t i : {3, 4}) {
    EBB_ASSIGN_OR_RETURN(const Dims shape, call.Shape(i));
    if (shape != channels || !call.IsInitializer(i)) {
      return call.Wrong(fmt::format("input {}: expected an initializer {}", i, ShapeText(channels)));
    }
  }
  const std::string layer = b.layer();
  const DType dtype = b.at(state.weight).dtype;
  b.set_layer("");
  state.running_mean = b.Buffer(call.NameOf(3), channels, dtype);
  state.running_var = b.Buffer(call.NameOf(4), channels, dtype);
  b.set_layer(layer);
  TensorId batches = b.Buffer("num_batches_tracked", {}, DType::kInt64);
  if (!b.inference()) b.InPlace("add_", batches, {{"other", std::int64_t{1}}});
  if (call.Wants(1)) EBB_RETURN_IF_ERROR(call.Set(1, state.running_mean));
  if (call.Wants(2)) EBB_RETURN_IF_ERROR(call.Set(2, state.running_var));
  return call.Set(0, op::BatchNorm(b, x, state));
}

// The axes from `axis` on, which is what layer and root-mean-square norms run over.
Result<Dims> NormalizedShape(Call& call, const Dims& shape) {
  const auto axis = NormalAxis(call.Int("axis", -1), shape.size());
  if (!axis) return call.Wrong(fmt::format("axis: expected one of {}", ShapeText(shape)));
  return Dims(shape.begin() + *axis, shape.end());
}

Status LayerNormalization(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(const Dims normalized, NormalizedShape(call, call.b.shape(x)));
  EBB_ASSIGN_OR_RETURN(TensorId weight, Weight(call, 1, normalized));
  EBB_ASSIGN_OR_RETURN(TensorId bias, OptionalWeight(call, 2, normalized));
  return call.Set(0, op::LayerNorm(call.b, x, weight, bias));
}

Status RmsNormalization(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  Builder& b = call.b;
  EBB_ASSIGN_OR_RETURN(const Dims normalized, NormalizedShape(call, b.shape(x)));
  EBB_ASSIGN_OR_RETURN(TensorId weight, Weight(call, 1, normalized));
  Dims statistics = b.shape(x);
  std::fill(statistics.end() - static_cast<std::ptrdiff_t>(normalized.size()), statistics.end(), 1);
  return call.Set(0, b.Call("_fused_rms_norm", {{"input", x}, {"normalized_shape", normalized}, {"weight", weight}},
                            {{b.shape(x), b.at(x).dtype}, {statistics, DType::kFloat32}})[0]);
}

// Instance norm is a group norm with a group per channel.
Status GroupNormalization(Call& call) {
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  Builder& b = call.b;
  EBB_RETURN_IF_ERROR(CheckAxes(call, b.shape(x), 3));
  const std::int64_t batch = b.dim(x, 0), channels = b.dim(x, 1);
  const std::int64_t groups = call.node.op == "InstanceNormalization" ? channels : call.Int("num_groups", 0);
  if (groups < 1 || channels % groups != 0) {
    return call.Wrong(fmt::format("num_groups {}: expected a divisor of {} channels", groups, channels));
  }
  EBB_ASSIGN_OR_RETURN(const Dims weights, call.Shape(1));
  const bool per_group = call.opset() < 21 && weights == Dims{groups};
  EBB_ASSIGN_OR_RETURN(TensorId weight, Weight(call, 1, {per_group ? groups : channels}));
  EBB_ASSIGN_OR_RETURN(TensorId bias, Weight(call, 2, {per_group ? groups : channels}));
  Dims statistics = {batch, groups};
  return call.Set(
      0, b.Call("native_group_norm", {{"input", x}, {"weight", weight}, {"bias", bias}, {"group", groups}},
                {{b.shape(x), b.at(x).dtype}, {statistics, DType::kFloat32}, {statistics, DType::kFloat32}})[0]);
}

constexpr OperatorRow kRules[] = {
    {"BatchNormalization", 5, 5, BatchNormalization},    {"LayerNormalization", 2, 3, LayerNormalization},
    {"RMSNormalization", 2, 2, RmsNormalization},        {"GroupNormalization", 3, 3, GroupNormalization},
    {"InstanceNormalization", 3, 3, GroupNormalization},
};

}  // namespace

std::span<const OperatorRow> NormalizationRules() { return kRules; }

}  // namespace ebbtide::model::onnx
