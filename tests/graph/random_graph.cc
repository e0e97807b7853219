// Draws storages, tensors and ops one by one, each from those that there are, so that every law of Check holds.
#include "tests/graph/random_graph.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <random>
#include <string>

#include "graph/shape.h"

namespace ebbtide {
namespace {

class Generator {
 public:
  Generator(std::uint64_t seed, const RandomGraphOptions& options) : random_(seed), options_(options) {}

  TrainingGraph Generate() {
    graph_.name = Text();
    if (Chance(0.5)) graph_.meta[Text()] = Text();
    const int scalars = Int(0, 2);
    for (int i = 0; i < scalars; ++i) graph_.scalars.push_back({Text(), Float()});
    AddPersistent();
    for (int i = 0; i < options_.ops; ++i) AddOp(i);
    AddOutputs();
    HoldLonger();
    return std::move(graph_);
  }

 private:
  int Int(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  bool Chance(double share) { return std::bernoulli_distribution(share)(random_); }
  template <class Item>
  const Item& Pick(const std::vector<Item>& items) {
    return items[static_cast<std::size_t>(Int(0, static_cast<int>(items.size()) - 1))];
  }

  std::string Text() {
    static const std::vector<std::string> kPlain = {"", "a", "layer1.0.conv1", "fc.weight"};
    static const std::vector<std::string> kOdd = {"\"quoted\"",
                                                  "back\\slash",
                                                  "two\nlines\t",
                                                  "\xC3\xA9t\xC3\xA9",
                                                  "\xE6\xB5\xB7",
                                                  "\xF0\x9F\x8C\x8A",
                                                  std::string("\0\x1F\x7F", 3),
                                                  "/"};
    return Pick(options_.odd_texts && Chance(0.3) ? kOdd : kPlain);
  }

  double Float() {
    static const std::vector<double> kFloats = {0.0,
                                                -0.0,
                                                1.0,
                                                0.1,
                                                -2.5,
                                                1e16,
                                                1e-300,
                                                5e-324,
                                                1.7976931348623157e308,
                                                std::numeric_limits<double>::infinity(),
                                                -std::numeric_limits<double>::infinity()};
    return Chance(0.5) ? Pick(kFloats) : std::uniform_real_distribution<double>(-1, 1)(random_);
  }

  DType RandomDType() { return static_cast<DType>(Int(0, static_cast<int>(DType::kComplex128))); }

  Dims RandomShape() {
    Dims shape(static_cast<std::size_t>(Int(0, 4)));
    for (auto& dim : shape) dim = Chance(0.05) ? 0 : Int(1, 6);
    return shape;
  }

  // A tensor that fills its new storage, but for some spare bytes at its end.
  TensorId AddStorage(StorageKind kind) {
    Tensor tensor;
    tensor.storage = StorageId(graph_.storages.size());
    tensor.dtype = RandomDType();
    tensor.shape = RandomShape();
    tensor.stride = *ContiguousStride(tensor.shape);
    tensor.name = Text();
    const Bytes spare = Chance(0.2) ? Int(1, 100) : 0;
    graph_.storages.push_back({.bytes = *Reach(tensor) + spare, .kind = kind, .name = Text(), .released_after = {}});
    graph_.tensors.push_back(std::move(tensor));
    return TensorId(graph_.tensors.size() - 1);
  }

  // Some elements of the same storage.
  TensorId AddView(TensorId of) {
    Tensor view = graph_.tensor(of);
    view.name = Text();
    if (Chance(0.2)) {
      std::reverse(view.shape.begin(), view.shape.end());
      std::reverse(view.stride.begin(), view.stride.end());
    } else if (Chance(0.3)) {
      view.shape.insert(view.shape.begin(), 3);
      view.stride.insert(view.stride.begin(), 0);
    } else if (!view.shape.empty() && view.shape[0] > 1) {
      --view.shape[0];
      view.offset += view.stride[0];
    }
    graph_.tensors.push_back(std::move(view));
    return TensorId(graph_.tensors.size() - 1);
  }

  void AddPersistent() {
    static const std::vector<StorageKind> kKinds = {StorageKind::kParameter, StorageKind::kBuffer,
                                                    StorageKind::kOptimizerState, StorageKind::kInput};
    for (int i = 0; i < options_.persistent; ++i) {
      visible_.push_back(AddStorage(Pick(kKinds)));
      if (Chance(0.2)) visible_.push_back(AddView(visible_.back()));
    }
  }

  void AddOp(int number) {
    static const std::vector<std::string> kKinds = {"mm", "relu_", "convolution", "_foreach_add_", "t"};
    static const std::vector<StorageKind> kMade = {StorageKind::kGradient, StorageKind::kActivation,
                                                   StorageKind::kTemporary};
    Op op;
    op.kind = Pick(kKinds);
    op.phase = static_cast<Phase>(3 * number / std::max(options_.ops, 1));
    op.layer = Text();
    for (int i = Int(0, 3); i > 0 && !visible_.empty(); --i) {
      const TensorId input = Pick(visible_);
      if (std::find(op.inputs.begin(), op.inputs.end(), input) == op.inputs.end()) op.inputs.push_back(input);
    }
    if (!op.inputs.empty() && Chance(options_.in_place)) {
      op.mutated.push_back(Pick(op.inputs));
      if (Chance(0.7)) op.outputs.push_back(AddView(op.mutated[0]));
    } else {
      for (int i = Int(0, 2); i > 0; --i) {
        const bool view = !op.inputs.empty() && Chance(options_.view);
        op.outputs.push_back(view ? AddView(Pick(op.inputs)) : AddStorage(Pick(kMade)));
        if (!view && Chance(0.1)) op.outputs.push_back(AddView(op.outputs.back()));
      }
    }
    if (options_.arguments) AddArguments(op);
    if (Chance(0.3)) op.flops = Int(1, 1 << 30);
    if (Chance(0.2)) op.workspace = Int(1, 500);
    if (Chance(0.3)) op.time = Int(1, 1 << 30);
    op.random = Chance(0.1);
    op.deterministic = !Chance(0.1);
    visible_.insert(visible_.end(), op.outputs.begin(), op.outputs.end());
    graph_.ops.push_back(std::move(op));
  }

  void AddArguments(Op& op) {
    op.schema = Chance(0.5) ? "aten::" + op.kind + ".default" : "";
    const int count = Chance(0.05) ? Int(15, 40) : Int(0, 5);
    for (int i = 0; i < count; ++i) op.arguments.push_back({Text() + std::to_string(i), RandomValue(op)});
  }

  Value RandomValue(const Op& op) {
    std::vector<TensorId> tensors = op.inputs;
    tensors.insert(tensors.end(), op.outputs.begin(), op.outputs.end());
    const auto list = [&](auto item) {
      std::vector<decltype(item())> items;
      for (int i = Int(0, 3); i > 0; --i) items.push_back(item());
      return items;
    };
    switch (Int(0, 12)) {
      case 0: return Chance(0.5);
      case 1: return std::int64_t{Int(-100, 100)};
      case 2: return Float();
      case 3: return Text();
      case 4: return list([&] { return std::int64_t{Int(-5, 5)}; });
      case 5: return list([&] { return Float(); });
      case 6: return list([&] { return Chance(0.5); });
      case 7: return tensors.empty() ? Value() : Value(Pick(tensors));
      case 8: return TensorList{list([&] { return tensors.empty() || Chance(0.3) ? TensorId() : Pick(tensors); })};
      case 9: return graph_.scalars.empty() ? Value() : Value(ScalarId(graph_.scalars.size() - 1));
      case 10: return ScalarList{graph_.scalars.empty() ? std::vector<ScalarId>() : list([] { return ScalarId(0); })};
      case 11: return Named{Pick(std::vector<std::string>{"dtype", "device", "layout", "memory_format"}), Text()};
      default: return {};
    }
  }

  void AddOutputs() {
    for (int i = Int(0, 2); i > 0 && !visible_.empty(); --i) graph_.outputs.push_back(Pick(visible_));
  }

  void HoldLonger() {
    std::vector<int> last(graph_.storages.size());
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      const Op& op = graph_.ops[static_cast<std::size_t>(i)];
      for (const TensorId id : op.inputs) last[graph_.tensor(id).storage.index()] = i;
      for (const TensorId id : op.outputs) last[graph_.tensor(id).storage.index()] = i;
    }
    for (const TensorId id : graph_.outputs) last[graph_.tensor(id).storage.index()] = -1;
    for (std::size_t i = 0; i < graph_.storages.size(); ++i) {
      if (IsPersistent(graph_.storages[i].kind) || last[i] < 0 || !Chance(options_.held_longer)) continue;
      graph_.storages[i].released_after =
          OpId(static_cast<std::size_t>(Int(last[i], static_cast<int>(graph_.ops.size()) - 1)));
    }
  }

  std::mt19937_64 random_;
  RandomGraphOptions options_;
  TrainingGraph graph_;
  std::vector<TensorId> visible_;  // what the next op may read
};

}  // namespace

TrainingGraph RandomGraph(std::uint64_t seed, const RandomGraphOptions& options) {
  return Generator(seed, options).Generate();
}

}  // namespace ebbtide
