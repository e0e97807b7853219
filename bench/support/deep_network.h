// A graph of any size to measure with.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/shape.h"

namespace ebbtide {

// A convolutional network of as many layers as it takes, with the ops that PyTorch would run: convolution, batch
// norm and an in-place relu per layer, their backward, and an update per weight.
class DeepNetwork {
 public:
  static constexpr std::size_t kOpsPerLayer = 7;

  static TrainingGraph Build(std::size_t ops) {
    DeepNetwork network;
    const std::size_t layers = ops / kOpsPerLayer;
    std::vector<Layer> done;
    TensorId x = network.NewTensor(StorageKind::kInput, {32, 64, 56, 56}, "batch.0");
    for (std::size_t i = 0; i < layers; ++i) x = network.Forward(i, x, done);
    TensorId gradient = network.NewTensor(StorageKind::kInput, {32, 64, 56, 56}, "seed");
    for (std::size_t i = layers; i-- > 0;) gradient = network.Backward(done[i], gradient);
    for (const Layer& layer : done) network.Update(layer);
    network.graph_.scalars = {{"group0.lr", 0.1}};
    network.graph_.outputs = {x};
    return std::move(network.graph_);
  }

 private:
  struct Layer {
    std::string name;
    TensorId x{}, weight{}, scale{}, mean{}, deviation{}, y{}, normal{}, active{}, weight_gradient{};
  };

  TensorId NewTensor(StorageKind kind, Dims shape, std::string name = "") {
    const StorageId storage(graph_.storages.size());
    graph_.storages.push_back({*ElementCount(shape) * 4, kind, name, OpId()});
    Dims stride = *ContiguousStride(shape);
    graph_.tensors.push_back(
        {.storage = storage, .shape = std::move(shape), .stride = std::move(stride), .name = std::move(name)});
    return TensorId(graph_.tensors.size() - 1);
  }
  TensorId NewActivation() { return NewTensor(StorageKind::kActivation, {32, 64, 56, 56}); }

  Op& NewOp(std::string kind, Phase phase, const Layer& layer, std::vector<TensorId> inputs,
            std::vector<TensorId> outputs) {
    Op& op = graph_.ops.emplace_back();
    op.schema = "aten::" + kind + ".default";
    op.kind = std::move(kind);
    op.phase = phase;
    op.layer = layer.name;
    op.inputs = std::move(inputs);
    op.outputs = std::move(outputs);
    op.time = static_cast<Nanos>(20'000 + graph_.ops.size() % 977);
    return op;
  }

  TensorId Forward(std::size_t number, TensorId x, std::vector<Layer>& done) {
    Layer layer{.name = fmt::format("layer{}.{}.conv", number / 8, number % 8)};
    layer.x = x;
    layer.weight = NewTensor(StorageKind::kParameter, {64, 64, 3, 3}, layer.name + ".weight");
    layer.scale = NewTensor(StorageKind::kParameter, {64}, layer.name + ".scale");
    layer.mean = NewTensor(StorageKind::kActivation, {64});
    layer.deviation = NewTensor(StorageKind::kActivation, {64});
    layer.y = NewActivation();
    layer.normal = NewActivation();
    Op& convolution = NewOp("convolution", Phase::kForward, layer, {x, layer.weight}, {layer.y});
    convolution.arguments = {{"input", x},           {"weight", layer.weight},       {"bias", {}},
                             {"stride", Dims{1, 1}}, {"padding", Dims{1, 1}},        {"dilation", Dims{1, 1}},
                             {"transposed", false},  {"output_padding", Dims{0, 0}}, {"groups", std::int64_t{1}}};
    convolution.flops = 2LL * 32 * 64 * 56 * 56 * 64 * 9;
    NewOp("native_batch_norm", Phase::kForward, layer, {layer.y, layer.scale},
          {layer.normal, layer.mean, layer.deviation})
        .arguments = {{"input", layer.y}, {"weight", layer.scale}, {"bias", {}},
                      {"training", true}, {"momentum", 0.1},       {"eps", 1e-5}};
    graph_.tensors.push_back(graph_.tensor(layer.normal));
    layer.active = TensorId(graph_.tensors.size() - 1);
    Op& relu = NewOp("relu_", Phase::kForward, layer, {layer.normal}, {layer.active});
    relu.mutated = {layer.normal};
    relu.arguments = {{"self", layer.normal}};
    done.push_back(layer);
    return layer.active;
  }

  TensorId Backward(Layer& layer, TensorId gradient) {
    const TensorId after_relu = NewActivation();
    NewOp("threshold_backward", Phase::kBackward, layer, {gradient, layer.active}, {after_relu}).arguments = {
        {"grad_output", gradient}, {"self", layer.active}, {"threshold", std::int64_t{0}}};
    const TensorId after_norm = NewActivation();
    NewOp("native_batch_norm_backward", Phase::kBackward, layer,
          {after_relu, layer.y, layer.scale, layer.mean, layer.deviation}, {after_norm})
        .arguments = {{"grad_out", after_relu},
                      {"input", layer.y},
                      {"weight", layer.scale},
                      {"save_mean", layer.mean},
                      {"save_invstd", layer.deviation},
                      {"train", true},
                      {"eps", 1e-5},
                      {"output_mask", std::vector<bool>{true, true, true}}};
    const TensorId out = NewActivation();
    layer.weight_gradient = NewTensor(StorageKind::kGradient, {64, 64, 3, 3});
    NewOp("convolution_backward", Phase::kBackward, layer, {after_norm, layer.x, layer.weight},
          {out, layer.weight_gradient})
        .arguments = {{"grad_output", after_norm}, {"input", layer.x},
                      {"weight", layer.weight},    {"stride", Dims{1, 1}},
                      {"padding", Dims{1, 1}},     {"output_mask", std::vector<bool>{true, true, false}}};
    return out;
  }

  void Update(const Layer& layer) {
    Op& update = NewOp("sub_", Phase::kUpdate, layer, {layer.weight, layer.weight_gradient}, {});
    update.mutated = {layer.weight};
    update.arguments = {{"self", layer.weight}, {"other", layer.weight_gradient}, {"alpha", ScalarId(0)}};
  }

  TrainingGraph graph_;
};

}  // namespace ebbtide
