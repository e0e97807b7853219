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

#include "bench/support/deep_network.h"
#include "graph/check.h"
#include "graph/json.h"
#include "graph/liveness.h"
#include "graph/summary.h"

namespace ebbtide {
namespace {

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
