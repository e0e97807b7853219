// Static packing: published hard instances at their capacity, and the storages of training steps, each beside the live
// peak that no packing can be below.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "graph/liveness.h"
#include "model/model.h"
#include "pack/instance_csv.h"
#include "pack/pack.h"
#include "tests/support/folders.h"

namespace ebbtide {
namespace {

constexpr Bytes kCapacity = 1048576;
constexpr Bytes kAlignment = 512;
constexpr double kSecondsPerInstance = 10;
constexpr int kNeeded = 9;

struct Timed {
  pack::Packing packing;
  double seconds = 0;
};

Timed PackTimed(const std::vector<pack::PackItem>& items, const pack::PackOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Timed result{.packing = pack::Pack(items, options)};
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (const Status status = pack::ValidatePacking(items, result.packing.offsets, result.packing.height); !status) {
    fmt::print("INVALID: {}\n", status.error().message);
    std::exit(1);
  }
  return result;
}

double Over(Bytes height, Bytes base) { return 100.0 * static_cast<double>(height - base) / static_cast<double>(base); }

bool PackInstances(const std::filesystem::path& folder) {
  int solved = 0;
  fmt::print("{:<10} {:>6} {:>12} {:>12} {:>9} {:>8}\n", "instance", "items", "height", "capacity", "excess",
             "seconds");
  for (char name = 'A'; name <= 'K'; ++name) {
    const auto instance = pack::ReadPackInstance((folder / fmt::format("{}.{}.csv", name, kCapacity)).string());
    if (!instance) {
      fmt::print("{}\n", instance.error().message);
      return false;
    }
    const Timed result = PackTimed(instance->items, {.capacity = kCapacity, .evaluations = 2'500'000});
    const bool fits = result.packing.height <= kCapacity && result.seconds <= kSecondsPerInstance;
    solved += fits ? 1 : 0;
    fmt::print("{:<10} {:>6} {:>12} {:>12} {:>9} {:>8.2f}\n", name, instance->items.size(), result.packing.height,
               kCapacity, fits ? "-" : fmt::format("{:.2f} %", Over(result.packing.height, kCapacity)), result.seconds);
  }
  fmt::print("{} of 11 at capacity within {} s each\n\n", solved, kSecondsPerInstance);
  return solved >= kNeeded;
}

bool PackSteps() {
  bool close = true;
  fmt::print("{:<20} {:>6} {:>14} {:>14} {:>9} {:>8}\n", "training step", "items", "height", "live peak", "excess",
             "seconds");
  for (const char* name : {"vgg16", "resnet50", "resnet152", "inception_v4", "densenet121", "mobilenet_v3_large",
                           "convnext_tiny", "bert-large", "gpt2-xl"}) {
    model::ModelOptions options;
    options.optimizer = "adam";
    options.device = model::Device::kCuda;
    const auto graph = model::LoadModel(name, options);
    if (!graph) {
      fmt::print("{}\n", graph.error().message);
      return false;
    }
    const std::vector<Lifetime> lifetimes = ComputeLiveness(*graph);
    std::vector<pack::PackItem> items;
    for (std::size_t i = 0; i < lifetimes.size(); ++i) {
      items.push_back({lifetimes[i].born.value, lifetimes[i].end.value, graph->storages[i].bytes});
    }
    const Timed result = PackTimed(items, {.alignment = kAlignment});
    const double over = Over(result.packing.height, result.packing.lower_bound);
    close = close && over <= 1;
    fmt::print("{:<20} {:>6} {:>14} {:>14} {:>7.2f} % {:>8.2f}\n", name, items.size(), result.packing.height,
               result.packing.lower_bound, over, result.seconds);
  }
  return close;
}

}  // namespace
}  // namespace ebbtide

int main() {
  const std::filesystem::path folder = ebbtide::DataFolder() / "packing";
  bool good = true;
  if (std::filesystem::is_directory(folder)) {
    good = ebbtide::PackInstances(folder);
  } else {
    fmt::print("packing: {} is not there; EBBTIDE_DATA names the folder of instances\n", folder.string());
  }
  return ebbtide::PackSteps() && good ? 0 : 1;
}
