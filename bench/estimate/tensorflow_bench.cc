// Training steps that TensorFlow ran on the CPU (tests/fixtures/tensorflow): its parameters and the most bytes of
// tensors that its allocator held, beside ours.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "estimate/tensorflow_training.h"
#include "graph/summary.h"
#include "model/model.h"
#include "tests/support/folders.h"

int main() {
  using namespace ebbtide;
  const std::string folder = SourceFolder() / "tests/fixtures/tensorflow/";
  const Result<std::string> text = ReadFile(folder + "reported.json", kMiB);
  if (!text) {
    fmt::print(stderr, "{}\n", text.error().message);
    return 2;
  }
  double sum = 0, worst = 0;
  int rows = 0, equal = 0, near = 0;
  fmt::print("{:<20} {:>5} {:>12} {:>12} {:>14} {:>14} {:>8}\n", "model", "batch", "parameters", "TensorFlow",
             "peak, MiB", "TensorFlow", "error");
  for (const auto& row : nlohmann::json::parse(*text)) {
    model::ModelOptions options;
    options.batch_size = row["batch"];
    const std::string name = row["model"];
    const Result<TrainingGraph> graph = model::LoadModel(folder + name + ".pb.gz", options);
    if (!graph) {
      fmt::print(stderr, "{}\n", graph.error().message);
      return 2;
    }
    const std::int64_t parameters = Summarize(*graph).parameters;
    const auto ours = static_cast<double>(estimate::TensorflowTensorPeak(*graph)) / kMiB;
    const double theirs = row["peak_tensor_bytes"].get<double>() / kMiB;
    const double error = 100 * (ours / theirs - 1);
    fmt::print("{:<20} {:>5} {:>12} {:>12} {:>14.1f} {:>14.1f} {:>+7.2f}%\n", name, options.batch_size, parameters,
               row["parameters"].get<std::int64_t>(), ours, theirs, error);
    equal += parameters == row["parameters"].get<std::int64_t>();
    sum += std::abs(error);
    worst = std::max(worst, std::abs(error));
    near += std::abs(error) <= 5;
    ++rows;
  }
  fmt::print("parameters equal in {} of {}; peak within 5 % in {}, mean error {:.2f} %, worst {:.2f} %\n", equal, rows,
             near, sum / rows, worst);
  return equal == rows ? 0 : 1;
}
