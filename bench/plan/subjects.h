// Steps that planners are measured on, recompute only: made here after a recipe, and those of EBBTIDE_DATA.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "device/op_time.h"
#include "model/model.h"
#include "sim/workload.h"
#include "tests/support/hand_graph.h"

namespace ebbtide {

struct Measured {
  std::string name;
  TrainingGraph graph;
  sim::Workload workload;
};

inline Measured MakeMeasured(std::string name, TrainingGraph graph) {
  Measured out{.name = std::move(name), .graph = std::move(graph), .workload = {}};
  out.workload = sim::MakeWorkload(out.graph, OpTimes(out.graph, *FindProfile("titanv")), {.alignment = 1});
  return out;
}

// Layers of about sqrt(nodes) ops each, of which every op reads up to three of the layer before and sometimes one of an
// earlier layer; every tenth is read by the last op.
inline TrainingGraph Layered(int nodes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  HandGraph step;
  const TensorId input = step.Present(1000, StorageKind::kInput);
  int width = 1;
  while (width * width < nodes) ++width;
  std::vector<std::vector<TensorId>> layers;
  std::vector<TensorId> kept;
  for (int made = 0; made < nodes;) {
    std::vector<TensorId> layer;
    for (int i = 0; i < width && made < nodes; ++i, ++made) {
      std::vector<TensorId> reads;
      for (int k = 0; k < 3 && !layers.empty(); ++k) {
        const auto& from =
            below(5) == 0 ? layers[static_cast<std::size_t>(below(static_cast<int>(layers.size())))] : layers.back();
        reads.push_back(from[static_cast<std::size_t>(below(static_cast<int>(from.size())))]);
      }
      if (reads.empty()) reads.push_back(input);
      layer.push_back(step.Make("op", reads, 100'000 + 1000 * below(2000), {.time = 1000 * (1 + below(20'000))}));
      if (below(10) == 0) kept.push_back(layer.back());
    }
    layers.push_back(std::move(layer));
  }
  step.graph.outputs.push_back(step.Make("sum", kept.empty() ? layers.back() : kept, 1000, {.time = 1000}));
  return std::move(step.graph);
}

// A chain of layers with its backward pass; with `skip`, the layers of the second half also read their mirror images.
inline TrainingGraph Network(int layers, bool skip, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(1, n)(random); };
  HandGraph step;
  std::vector<TensorId> saved = {step.Present(1000, StorageKind::kInput)};
  std::vector<std::vector<TensorId>> inputs;
  std::vector<Nanos> times;
  for (int i = 0; i < layers; ++i) {
    inputs.push_back({saved.back()});
    if (skip && i > layers / 2) inputs.back().push_back(saved[static_cast<std::size_t>(layers - i)]);
    times.push_back(1000 * below(1000));
    saved.push_back(step.Make("convolution", inputs.back(), 1000 * below(1000), {.time = times.back()}));
  }
  TensorId gradient = step.Make("loss", {saved.back()}, 100, {.time = 1000});
  for (int i = layers; i-- > 0;) {
    const auto n = static_cast<std::size_t>(i);
    std::vector<TensorId> reads = inputs[n];
    reads.push_back(gradient);
    gradient = step.Make("convolution_backward", reads, step.graph.storage_of(saved[n]).bytes,
                         {.phase = Phase::kBackward, .time = 2 * times[n]});
  }
  step.graph.outputs.push_back(gradient);
  return std::move(step.graph);
}

// Two chains that take turns, as an unrolled GAN's generator and discriminator do: `rounds` times the second chain
// reads what the first made last and goes on from its own end; every round's last storage is read by the loss.
inline TrainingGraph Unrolled(int rounds, int layers, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(1, n)(random); };
  HandGraph step;
  struct Layer {
    std::vector<TensorId> inputs;
    TensorId output;
    Nanos time;
  };
  std::vector<Layer> forward;
  const auto layer = [&](std::vector<TensorId> inputs) {
    const Nanos time = 1000 * below(1000);
    const TensorId output = step.Make("convolution", inputs, 1000 * below(1000), {.time = time});
    forward.push_back({std::move(inputs), output, time});
    return output;
  };
  TensorId first = step.Present(1000, StorageKind::kInput), second = first;
  std::vector<TensorId> ends;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < layers; ++i) first = layer({first});
    second = layer({second, first});
    for (int i = 1; i < layers; ++i) second = layer({second});
    ends.push_back(second);
  }
  TensorId gradient = step.Make("loss", ends, 100, {.time = 1000});
  for (std::size_t i = forward.size(); i-- > 0;) {
    std::vector<TensorId> reads = forward[i].inputs;
    reads.push_back(gradient);
    gradient = step.Make("convolution_backward", reads, step.graph.storage_of(forward[i].output).bytes,
                         {.phase = Phase::kBackward, .time = 2 * forward[i].time});
  }
  step.graph.outputs.push_back(gradient);
  return std::move(step.graph);
}

inline std::vector<Measured> MadeSteps() {
  std::vector<Measured> out;
  for (const int nodes : {100, 250, 500, 1000})
    out.push_back(MakeMeasured(fmt::format("layered, {}", nodes), Layered(nodes, static_cast<std::uint64_t>(nodes))));
  out.push_back(MakeMeasured("chain, 60 layers", Network(60, false, 1)));
  out.push_back(MakeMeasured("skips, 60 layers", Network(60, true, 2)));
  out.push_back(MakeMeasured("unrolled, 6 rounds", Unrolled(6, 20, 3)));
  return out;
}

// Those of EBBTIDE_DATA that are there.
inline std::vector<Measured> StoredSteps() {
  std::vector<Measured> out;
  const char* data = std::getenv("EBBTIDE_DATA");
  if (!data) return out;
  for (const char* name :
       {"wide/layered_100.json.gz", "wide/layered_500.json.gz", "wide/checkmate_resnet50.json.gz",
        "wide/checkmate_segnet.json.gz", "wide/checkmate_vgg19.json.gz", "titanv_resnet32_bs56.json.gz",
        "titanv_transformer_bs10.json.gz", "titanv_tv_densenet121_bs84.json.gz", "titanv_lstm_bs128.json.gz",
        "layers_vgg16.txt", "layers_resnet18.txt", "layers_resnet50.txt", "layers_densenet121.txt"}) {
    auto graph = model::LoadModel(fmt::format("{}/graphs/{}", data, name), {});
    const std::string_view short_name(name);
    if (graph) out.push_back(MakeMeasured(std::string(short_name.substr(0, short_name.find('.'))), *std::move(graph)));
  }
  return out;
}

}  // namespace ebbtide
