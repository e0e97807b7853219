// What a graph costs per op, from 10^4 to 10^6 ops, and the time and memory of the largest as a file.
// Every measurement runs in a process of its own, so that none finds memory or caches warmed by another.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "graph/check.h"
#include "graph/json.h"
#include "graph/liveness.h"
#include "graph/shape.h"
#include "graph/summary.h"

namespace ebbtide {
namespace {

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

template <class T>
T Must(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "{}\n", result.error().message);
  std::_Exit(1);
}

void Must(const Status& status) {
  if (status) return;
  fmt::print(stderr, "{}\n", status.error().message);
  std::_Exit(1);
}

// Of the processor: other programs on the machine do not count.
double ProcessorSeconds() {
  struct timespec now {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Function>
double Seconds(Function function) {
  const double begin = ProcessorSeconds();
  function();
  return ProcessorSeconds() - begin;
}

struct Measurement {
  static constexpr std::size_t kStages = 5;
  static constexpr std::array<const char*, kStages> kNames = {"  read and check", "  check alone", "  liveness",
                                                              "summary", "write"};
  std::array<double, kStages> seconds{};  // of the processor
  double wall_seconds = 0;                // read, check and liveness
  double peak_bytes = 0;                  // of the process
};

Measurement MeasureFile(const std::string& path) {
  Measurement result;
  TrainingGraph graph;
  const double begin = WallSeconds();
  result.seconds[0] = Seconds([&] { graph = Must(ReadGraph(path)); });
  result.seconds[2] = Seconds([&] { ComputeLiveness(graph); });
  result.wall_seconds = WallSeconds() - begin;
  result.seconds[1] = Seconds([&] { Must(Check(graph)); });
  result.seconds[3] = Seconds([&] { Summarize(graph); });
  result.seconds[4] = Seconds([&] { Must(WriteGraph(graph, "/dev/null")); });
  return result;
}

// Runs the function in a child and gives back what it returned.
Measurement InChild(const std::function<Measurement()>& function) {
  int pipe_ends[2];
  if (::pipe(pipe_ends) != 0) std::abort();
  const pid_t child = ::fork();
  if (child == 0) {
    const Measurement result = function();
    const bool sent = ::write(pipe_ends[1], &result, sizeof result) == sizeof result;
    std::_Exit(sent ? 0 : 1);
  }
  ::close(pipe_ends[1]);
  Measurement result;
  const bool received = ::read(pipe_ends[0], &result, sizeof result) == sizeof result;
  ::close(pipe_ends[0]);
  struct rusage usage {};
  int status = 0;
  if (::wait4(child, &status, 0, &usage) != child || status != 0 || !received) std::exit(1);
  result.peak_bytes = static_cast<double>(usage.ru_maxrss) * 1024;
  return result;
}

// The median of each stage, and of the whole the best: what the machine can do when it does nothing else.
Measurement Repeat(int times, const std::string& path) {
  std::vector<Measurement> all;
  for (int i = 0; i < times; ++i) all.push_back(InChild([&] { return MeasureFile(path); }));
  Measurement median = *std::min_element(all.begin(), all.end(),
                                         [](const auto& a, const auto& b) { return a.wall_seconds < b.wall_seconds; });
  for (std::size_t stage = 0; stage < Measurement::kStages; ++stage) {
    std::sort(all.begin(), all.end(),
              [&](const auto& a, const auto& b) { return a.seconds[stage] < b.seconds[stage]; });
    median.seconds[stage] = all[all.size() / 2].seconds[stage];
  }
  return median;
}

int Main() {
  namespace fs = std::filesystem;
  constexpr std::array<std::size_t, 3> kSizes = {10'000, 100'000, 1'000'000};
  constexpr std::array<int, 3> kRepeats = {21, 9, 3};
  const fs::path folder = fs::temp_directory_path() / fmt::format("ebbtide-graph-bench-{}", ::getpid());
  fs::create_directories(folder);
  std::array<Measurement, 3> results;
  std::string largest;
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    largest = (folder / fmt::format("{}.json", kSizes[i])).string();
    InChild([&] {
      const TrainingGraph graph = DeepNetwork::Build(kSizes[i]);
      Must(WriteGraph(graph, largest));
      if (i + 1 == kSizes.size()) Must(WriteGraph(graph, largest + ".gz"));
      return Measurement();
    });
    results[i] = Repeat(kRepeats[i], largest);
  }

  const auto print_row = [&](std::string_view name, const auto& seconds_of) {
    fmt::print("{:<26}", name);
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      fmt::print("{:>12.0f}", seconds_of(results[i]) * 1e9 / static_cast<double>(kSizes[i]));
    }
    fmt::print("{:>13.2f}x\n", seconds_of(results[2]) / seconds_of(results[0]) / 100);
  };
  fmt::print("{:<26}{:>12}{:>12}{:>12}{:>14}\n", "nanoseconds per op", "10^4 ops", "10^5 ops", "10^6 ops",
             "10^6 : 10^4");
  print_row("read, check and liveness", [](const Measurement& m) { return m.seconds[0] + m.seconds[2]; });
  for (std::size_t stage = 0; stage < Measurement::kStages; ++stage) {
    print_row(Measurement::kNames[stage], [stage](const Measurement& m) { return m.seconds[stage]; });
  }
  fmt::print("\n{:<14}{:>12}{:>12}{:>12}{:>12}{:>14}\n", "10^6 ops", "file", "s (< 10)", "cpu s", "GB (< 4)",
             "memory : text");
  const auto text_bytes = static_cast<double>(fs::file_size(largest));
  for (const std::string& path : {largest, largest + ".gz"}) {
    const Measurement result = path == largest ? results[2] : Repeat(3, path);
    fmt::print("{:<14}{:>12}{:>12.2f}{:>12.2f}{:>12.2f}{:>13.2f}x\n", path.ends_with(".gz") ? "gzip" : "plain",
               FormatBytes(static_cast<Bytes>(fs::file_size(path))), result.wall_seconds,
               result.seconds[0] + result.seconds[2], result.peak_bytes / 1e9, result.peak_bytes / text_bytes);
  }
  fs::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace ebbtide

int main() { return ebbtide::Main(); }
