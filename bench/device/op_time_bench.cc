// Modelled op times beside measured ones, by family of ops: densenet121 of the zoo beside a trace of a TITAN V, vgg16
// beside a layer profile whose GPU is not stated, taken for a V100.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "device/op_time.h"
#include "model/model.h"
#include "tests/support/folders.h"

namespace ebbtide {
namespace {

// Forward and backward of a family, in nanoseconds.
using Sums = std::map<std::string, double>;

std::string RowOf(const Op& op) {
  std::string family(EfficiencyOf(FamilyOf(op.kind)).name);
  if (op.phase == Phase::kBackward && family.find("backward") == std::string::npos) family += " backward";
  return family;
}

Sums SumUp(const TrainingGraph& graph, const std::vector<Nanos>& times) {
  Sums sums;
  for (std::size_t i = 0; i < times.size(); ++i) sums[RowOf(graph.ops[i])] += static_cast<double>(times[i]);
  return sums;
}

bool Compare(const std::filesystem::path& file, const std::string& model, std::int64_t batch, const std::string& gpu) {
  model::ModelOptions options;
  options.batch_size = batch;
  options.optimizer = "none";
  options.device = model::Device::kCuda;
  const auto ours = model::LoadModel(model, options);
  const auto theirs = model::LoadModel(file.string(), {});
  const auto profile = FindProfile(gpu);
  if (!ours || !theirs || !profile) {
    fmt::print("{}\n", !ours ? ours.error().message : !theirs ? theirs.error().message : profile.error().message);
    return false;
  }
  const Sums modelled = SumUp(*ours, OpTimes(*ours, *profile));
  const Sums measured = SumUp(*theirs, OpTimes(*theirs, *profile));
  fmt::print("{} batch {} on {}: modelled beside {}\n", model, batch, gpu, file.filename().string());
  fmt::print("  {:<28} {:>12} {:>12} {:>7}\n", "", "modelled ms", "measured ms", "ratio");
  const auto print = [](const std::string& name, double a, double b) {
    fmt::print("  {:<28} {:>12.2f} {:>12.2f} {:>7}\n", name, a / 1e6, b / 1e6,
               b > 0 ? fmt::format("{:.2f}", a / b) : std::string("-"));
  };
  Sums rows = modelled;
  rows.insert(measured.begin(), measured.end());
  double a = 0;
  double b = 0;
  for (const auto& [name, unused] : rows) {
    const auto of = [&](const Sums& sums) { return sums.contains(name) ? sums.at(name) : 0.0; };
    if (of(modelled) < 5e4 && of(measured) < 5e4) continue;
    print(name, of(modelled), of(measured));
  }
  for (const auto& [name, time] : modelled) a += time;
  for (const auto& [name, time] : measured) b += time;
  print("sum", a, b);
  const bool near = a > 0.75 * b && a < 1.25 * b;
  fmt::print("  {}\n\n", near ? "within 25 % in sum" : "MORE THAN 25 % APART in sum");
  return near;
}

}  // namespace
}  // namespace ebbtide

int main() {
  const std::filesystem::path folder = ebbtide::DataFolder() / "graphs";
  if (!std::filesystem::is_directory(folder)) {
    fmt::print("op_time: {} is not there; EBBTIDE_DATA names the folder of measurements\n", folder.string());
    return 0;
  }
  bool near = ebbtide::Compare(folder / "titanv_tv_densenet121_bs84.json.gz", "densenet121", 84, "titanv");
  near = ebbtide::Compare(folder / "layers_vgg16.txt", "vgg16", 128, "v100-16gb") && near;
  // Not held to a limit: models that the shares were not chosen on.
  ebbtide::Compare(folder / "layers_densenet121.txt", "densenet121", 64, "v100-16gb");
  ebbtide::Compare(folder / "layers_resnet18.txt", "resnet18", 256, "v100-16gb");
  ebbtide::Compare(folder / "layers_resnet50.txt", "resnet50", 128, "v100-16gb");
  return near ? 0 : 1;
}
