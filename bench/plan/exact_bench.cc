// The home policy beside the best there is, on steps small enough to know that: random networks, layer profiles (with
// EBBTIDE_DATA) and small models, over budgets from just above the least to nearly everything, with and without swaps.
// Fails where half of the plans are more than 1 % slower, or the lower bound is above the best.
//   bench_plan_exact [SECONDS]   for the integer program at each point, 5 if not given; what takes longer is left out
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "device/op_time.h"
#include "model/model.h"
#include "plan/bound/bound.h"
#include "plan/policies/policy.h"
#include "sim/simulate.h"
#include "tests/support/hand_graph.h"
#include "tests/support/random_step.h"

namespace ebbtide {
namespace {

constexpr std::size_t kMostCandidates = 12;                     // of which exact tries every choice, where it may swap
constexpr double kShares[] = {0.9, 0.7, 0.5, 0.3, 0.15, 0.05};  // of the way from the floor to the peak

// Layers of random sizes and costs, each saved for its backward. With skips, a layer also reads the one two before.
TrainingGraph Network(std::uint64_t seed, int layers, bool skips) {
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(1, n)(random); };
  HandGraph step;
  std::vector<TensorId> saved = {step.Present(200, StorageKind::kInput)};
  std::vector<std::vector<TensorId>> inputs;
  std::vector<Nanos> times;
  for (int i = 0; i < layers; ++i) {
    inputs.push_back({saved.back()});
    if (skips && i > 1 && below(2) == 1) inputs.back().push_back(saved[saved.size() - 2]);
    times.push_back(1000 * below(100));
    saved.push_back(step.Make("convolution", inputs.back(), 100 * below(20), {.time = times.back()}));
  }
  TensorId gradient = step.Make("loss", {saved.back()}, 100, {.time = 1000});
  for (int i = layers; i-- > 0;) {
    std::vector<TensorId> reads = inputs[static_cast<std::size_t>(i)];
    reads.push_back(gradient);
    if (below(2) == 1) reads.push_back(saved[static_cast<std::size_t>(i) + 1]);
    const Bytes bytes = step.graph.storage_of(saved[static_cast<std::size_t>(i)]).bytes;
    gradient = step.Make("convolution_backward", reads, bytes,
                         {.phase = Phase::kBackward, .time = 2 * times[static_cast<std::size_t>(i)]});
  }
  step.graph.outputs.push_back(gradient);
  return std::move(step.graph);
}

struct Subject {
  std::string kind;
  TrainingGraph graph;
};

std::vector<Subject> Subjects() {
  std::vector<Subject> out;
  for (int i = 0; i < 12; ++i) out.push_back({"chains", Network(static_cast<std::uint64_t>(i), 4 + i % 6, false)});
  for (int i = 0; i < 12; ++i)
    out.push_back({"networks with skips", Network(100 + static_cast<std::uint64_t>(i), 4 + i % 6, true)});
  for (int i = 0; i < 6; ++i)
    out.push_back({"random steps", RandomStep(static_cast<std::uint64_t>(i), {.layers = 3 + i % 3, .largest = 1000})});
  model::ModelOptions options;
  options.device = model::Device::kCuda;
  options.batch_size = 256;
  for (const char* name : {"alexnet", "mlp"}) {
    if (auto graph = model::LoadModel(name, options)) out.push_back({name, *std::move(graph)});
  }
  if (const char* data = std::getenv("EBBTIDE_DATA")) {
    if (auto graph = model::LoadModel(fmt::format("{}/graphs/layers_vgg16.txt", data), {})) {
      out.push_back({"layers_vgg16", *std::move(graph)});
    }
  }
  return out;
}

// Of the points of one kind.
struct Tally {
  std::string kind;
  int points = 0, left_out = 0, infeasible = 0, missed = 0;  // missed: exact has a plan, home has none
  std::vector<double> ratios = {};
  std::vector<double> bounds = {};  // over the best
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
};

class Bench {
 public:
  explicit Bench(double seconds) : seconds_(seconds) {}

  int Run() {
    for (const bool swaps : {false, true}) {
      tallies_.clear();
      fmt::print("\n{}: time of home over the best, bound over the best\n",
                 swaps ? "Swap and recompute" : "Recompute only");
      fmt::print("{:20} {:>6} {:>8} {:>10} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "", "points", "left out",
                 "infeasible", "missed", "median", "worst", "bound", "largest", "seconds");
      Tally all{.kind = "all"};
      for (const Subject& subject : Subjects()) {
        if (tallies_.empty() || tallies_.back().kind != subject.kind)
          Show(), tallies_.push_back({.kind = subject.kind});
        for (const double share : kShares) Measure(subject.graph, share, swaps, tallies_.back(), all);
      }
      Show();
      Print(all);
      failed_ |= all.ratios.empty() || Median(all.ratios) > 1.01 || all.missed > 0;
    }
    if (above_ > 0) fmt::print("The bound is above the best at {} points\n", above_);
    return failed_ || above_ > 0 ? 1 : 0;
  }

 private:
  static double Median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  }
  static void Print(const Tally& tally) {
    fmt::print("{:20} {:6} {:8} {:10} {:6}", tally.kind, tally.points, tally.left_out, tally.infeasible, tally.missed);
    if (tally.ratios.empty()) {
      fmt::print("{:36}", "");
    } else {
      fmt::print(" {:8.4f} {:8.4f} {:8.4f} {:8.4f}", Median(tally.ratios), *std::ranges::max_element(tally.ratios),
                 Median(tally.bounds), *std::ranges::max_element(tally.bounds));
    }
    fmt::print(" {:8.1f}\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - tally.since).count());
    std::fflush(stdout);
  }
  void Show() const {
    if (!tallies_.empty()) Print(tallies_.back());
  }

  void Measure(const TrainingGraph& graph, double share, bool swaps, Tally& tally, Tally& all) {
    const DeviceProfile gpu = *FindProfile("v100-16gb");
    const bool measured = !graph.meta.contains("framework");
    const sim::Workload workload = sim::MakeWorkload(graph, OpTimes(graph, gpu), {.alignment = measured ? 1 : 512});
    // A link that moves the plain peak in the time of the plain step: copies are neither free nor of no use.
    const double bandwidth =
        1e9 * static_cast<double>(sim::PlainPeak(workload)) / static_cast<double>(sim::PlainTime(workload));
    const Link link{.to_device = bandwidth, .to_host = bandwidth, .latency = 0};
    plan::Limits limits{.may_swap = swaps};
    const plan::Problem any = plan::MakeProblem(workload, link, limits);
    const Bytes floor = plan::Floor(any), peak = *std::ranges::max_element(any.live);
    if (floor >= peak) return;
    limits.budget = floor + static_cast<Bytes>(share * static_cast<double>(peak - floor));
    plan::Problem problem = plan::MakeProblem(workload, link, limits);
    plan::PolicyInput input{.graph = graph, .problem = problem, .search = {}};
    input.search.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    for (Tally* one : {&tally, &all}) ++one->points;
    const bool too_large = swaps && plan::FindCandidates(problem).size() > kMostCandidates;
    const plan::PolicyResult home = plan::RunHome(input);
    problem.deadline = Deadline::OfLimit(seconds_);
    const plan::PolicyResult exact = too_large
                                         ? plan::PolicyResult{.schedule = {}, .stopped_early = true, .preferences = {}}
                                         : plan::RunExact(input);
    if (exact.stopped_early) {
      for (Tally* one : {&tally, &all}) ++one->left_out;
      return;
    }
    if (!exact.schedule) {
      for (Tally* one : {&tally, &all}) ++one->infeasible;
      return;
    }
    const Nanos best = sim::Simulate(workload, *exact.schedule, link).time;
    const Nanos bound = plan::LowerBound(problem);
    above_ += bound > best;
    for (Tally* one : {&tally, &all}) one->bounds.push_back(static_cast<double>(bound) / static_cast<double>(best));
    if (!home.schedule) {
      for (Tally* one : {&tally, &all}) ++one->missed;
      return;
    }
    const double ratio =
        static_cast<double>(sim::Simulate(workload, *home.schedule, link).time) / static_cast<double>(best);
    for (Tally* one : {&tally, &all}) one->ratios.push_back(ratio);
  }

  double seconds_;
  std::vector<Tally> tallies_;
  int above_ = 0;
  bool failed_ = false;
};

}  // namespace
}  // namespace ebbtide

int main(int argc, char** argv) { return ebbtide::Bench(argc > 1 ? std::atof(argv[1]) : 5).Run(); }
