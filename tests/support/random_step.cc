// Builds random training steps layer by layer, and from the layers their backward pass and update.
#include "tests/support/random_step.h"

#include <algorithm>
#include <random>

#include "tests/support/hand_graph.h"

namespace ebbtide {
namespace {

class Maker {
 public:
  Maker(std::uint64_t seed, const RandomStepOptions& options) : random_(seed), options_(options) {}

  TrainingGraph Run() {
    early_update_ = Chance(options_.early_update);
    std::vector<TensorId> activations{step_.Present(Size(), StorageKind::kInput)};
    for (int i = 0; i < options_.layers; ++i) AddLayer(activations);
    const TensorId loss = step_.Make("mse_loss", {activations.back()}, 4, Details(Phase::kForward));
    step_.graph.outputs.push_back(loss);
    if (Chance(0.3)) step_.graph.outputs.push_back(activations[Below(activations.size())]);
    AddBackward();
    for (const auto& [parameter, gradient] : gradients_) Update(parameter, gradient);
    HoldLonger();
    return std::move(step_.graph);
  }

 private:
  struct Layer {
    TensorId input, output, parameter;
    std::vector<TensorId> saved;
  };

  std::size_t Below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  bool Chance(double share) { return std::bernoulli_distribution(share)(random_); }
  Bytes Size() { return Chance(0.03) ? 0 : 1 + static_cast<Bytes>(Below(static_cast<std::size_t>(options_.largest))); }
  HandGraph::Details Details(Phase phase) {
    HandGraph::Details out;
    out.phase = phase;
    out.time = Chance(0.1) ? 0 : static_cast<Nanos>(1 + Below(100));
    out.workspace = Chance(0.2) ? Size() : 0;
    return out;
  }

  void AddLayer(std::vector<TensorId>& activations) {
    const TensorId input = Chance(0.7) ? activations.back() : activations[Below(activations.size())];
    HandGraph::Details details = Details(Phase::kForward);
    details.deterministic = !Chance(options_.not_repeatable);
    Layer layer{.input = input, .output = {}, .parameter = {}, .saved = {}};
    const bool is_state = IsPersistent(step_.graph.storage_of(input).kind);
    switch (is_state ? Below(4) : Below(7)) {
      case 0:
      case 1:
        layer.parameter = step_.Present(Size());
        layer.output = step_.Make("convolution", {input, layer.parameter}, Size(), details);
        break;
      case 2: {
        layer.parameter = step_.Present(Size());
        // Layers may share statistics, and one that evaluates reads them and leaves them.
        if (means_.empty() || Chance(0.7)) means_.push_back(step_.Present(Size(), StorageKind::kBuffer));
        const TensorId mean = means_[Below(means_.size())];
        if (Chance(0.7)) details.mutated = {mean};
        const auto made = step_.Run("native_batch_norm", {input, layer.parameter, mean}, {Size(), 4, 4}, details);
        layer.output = made[0];
        layer.saved = {made[1], made[2]};
        break;
      }
      case 3: {
        const auto made = step_.Run("native_dropout", {input}, {Size(), Size()}, details);
        layer.output = made[0];
        layer.saved = {made[1]};
        break;
      }
      case 4: {
        const TensorId other = activations[Below(activations.size())];
        std::vector<TensorId> inputs{input};
        if (other != input) inputs.push_back(other);
        layer.output = step_.Make("add", inputs, Size(), details);
        break;
      }
      case 5: {
        layer.output = step_.View(input);
        step_.Push("view", {input}, {layer.output}, {});
        break;
      }
      default: {
        if (!Chance(2 * options_.in_place)) {
          layer.output = step_.Make("relu", {input}, Size(), details);
          break;
        }
        const TensorId other = activations[Below(activations.size())];
        std::vector<TensorId> inputs{input};
        if (Chance(0.5) && other != input) inputs.push_back(other);
        layer.output = step_.Change("add_", inputs, details);
      }
    }
    layers_.push_back(layer);
    activations.push_back(layer.output);
  }

  void AddBackward() {
    TensorId gradient = step_.Make("ones_like", {}, 4, Details(Phase::kBackward));
    for (std::size_t i = layers_.size(); i-- > 0;) {
      const Layer& layer = layers_[i];
      std::vector<TensorId> inputs{gradient};
      const auto read = [&](TensorId tensor) {
        if (tensor.valid() && std::ranges::find(inputs, tensor) == inputs.end()) inputs.push_back(tensor);
      };
      if (Chance(0.6)) read(layer.input);
      if (Chance(0.4)) read(layer.output);
      for (const TensorId saved : layer.saved) read(saved);
      read(layer.parameter);
      if (Chance(0.15)) {
        gradient = step_.Change("threshold_backward_", inputs, Details(Phase::kBackward));
        continue;
      }
      std::vector<Bytes> sizes{Size()};
      if (layer.parameter.valid()) sizes.push_back(step_.graph.storage_of(layer.parameter).bytes);
      const auto made = step_.Run("convolution_backward", inputs, sizes, Details(Phase::kBackward));
      gradient = made[0];
      if (!layer.parameter.valid()) continue;
      if (early_update_ && Chance(0.5)) {
        Update(layer.parameter, made[1]);
      } else {
        gradients_.emplace_back(layer.parameter, made[1]);
      }
    }
  }

  void Update(TensorId parameter, TensorId gradient) {
    if (Chance(0.5)) {
      step_.Change("sub_", {parameter, gradient}, Details(Phase::kUpdate));
    } else {
      const TensorId momentum = step_.Present(step_.graph.storage_of(parameter).bytes, StorageKind::kOptimizerState);
      const TensorId moved = step_.Change("add_", {momentum, gradient}, Details(Phase::kUpdate));
      step_.Change("sub_", {parameter, moved}, Details(Phase::kUpdate));
    }
  }

  void HoldLonger() {
    TrainingGraph& graph = step_.graph;
    std::vector<std::size_t> last(graph.storages.size(), 0);
    std::vector<bool> stays(graph.storages.size(), false);
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      for (const TensorId id : graph.ops[i].inputs) last[graph.tensor(id).storage.index()] = i;
      for (const TensorId id : graph.ops[i].outputs) last[graph.tensor(id).storage.index()] = i;
    }
    for (const TensorId id : graph.outputs) stays[graph.tensor(id).storage.index()] = true;
    for (std::size_t s = 0; s < graph.storages.size(); ++s) {
      if (IsPersistent(graph.storages[s].kind) || stays[s] || !Chance(0.15)) continue;
      graph.storages[s].released_after = OpId(last[s] + Below(graph.ops.size() - last[s]));
    }
  }

  std::mt19937_64 random_;
  RandomStepOptions options_;
  HandGraph step_;
  bool early_update_ = false;
  std::vector<Layer> layers_;
  std::vector<TensorId> means_;  // statistics of batch norm
  std::vector<std::pair<TensorId, TensorId>> gradients_;
};

}  // namespace

TrainingGraph RandomStep(std::uint64_t seed, const RandomStepOptions& options) { return Maker(seed, options).Run(); }

}  // namespace ebbtide
