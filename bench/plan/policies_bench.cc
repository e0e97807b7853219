// Plans beside those of other policies, all in the one simulator and in one run. Fails where a claim does not hold.
//   bench_plan [dtr|swap [MODEL]|swarm|speed|large [OPS]|vdnn|wide [NAME]|profile]   (all of them without a name;
//   EBBTIDE_DATA for dtr and profile, and for more graphs of wide)
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "bench/plan/subjects.h"
#include "bench/support/deep_network.h"
#include "device/op_time.h"
#include "model/model.h"
#include "plan/bound/bound.h"
#include "plan/make_plan.h"
#include "plan/search/rollout.h"
#include "sim/simulate.h"

namespace ebbtide {
namespace {

const char* const kSix[] = {"vgg16", "resnet50", "resnet152", "inception_v4", "densenet121", "bert-large"};

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

// Of all threads of this process so far.
double ProcessorSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// A graph with what planning needs of it.
struct Subject {
  TrainingGraph graph;
  sim::Workload workload;
  Nanos plain_time = 0;
  Bytes plain_peak = 0;
};

template <class T>
T Must(Result<T> result) {
  if (result) return *std::move(result);
  fmt::print(stderr, "bench_plan: {}\n", result.error().message);
  std::exit(2);
}

Subject MakeSubject(TrainingGraph graph, const DeviceProfile& gpu, const OpTimeOptions& times = {}) {
  Subject out{.graph = std::move(graph), .workload = {}};
  const Bytes alignment = out.graph.meta.contains("framework") ? 512 : 1;
  out.workload = sim::MakeWorkload(out.graph, OpTimes(out.graph, gpu, times), {.alignment = alignment});
  out.plain_time = sim::PlainTime(out.workload);
  out.plain_peak = sim::PlainPeak(out.workload);
  return out;
}

Subject Load(const std::string& name, std::int64_t batch, const DeviceProfile& gpu, const OpTimeOptions& times = {}) {
  model::ModelOptions options;
  options.device = model::Device::kCuda;
  options.batch_size = batch;
  return MakeSubject(Must(model::LoadModel(name, options)), gpu, times);
}

// The smallest power of two whose plain peak does not fit.
std::pair<std::int64_t, Subject> TooLarge(const std::string& name, const DeviceProfile& gpu, Bytes memory) {
  for (std::int64_t batch = 1;; batch *= 2) {
    Subject subject = Load(name, batch, gpu);
    if (subject.plain_peak > memory) return {batch, std::move(subject)};
  }
}

plan::SearchOptions DefaultSearch() {
  plan::SearchOptions search;
  search.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return search;
}

Nanos TimeOf(const Subject& subject, const plan::Problem& problem, const plan::Policy& policy) {
  const plan::Planned planned = plan::MakePlan(subject.graph, problem, policy, DefaultSearch());
  return planned.plan ? planned.plan->time : plan::kInfeasible;
}

std::string Ratio(Nanos time, Nanos plain) {
  return time == plan::kInfeasible ? "-"
                                   : fmt::format("{:.4f}", static_cast<double>(time) / static_cast<double>(plain));
}

std::string DataFile(const std::string& name) {
  const char* folder = std::getenv("EBBTIDE_DATA");
  return folder ? fmt::format("{}/graphs/{}", folder, name) : "";
}

// Times of DTR's own simulator on its traces, over those of keeping everything, by share of the peak (docs/plan.md).
const std::map<std::string, std::map<int, double>> kDtr = {
    {"titanv_resnet32_bs56", {{70, 1.046}, {50, 1.107}, {40, 1.140}, {30, 1.178}, {20, 1.371}}},
    {"titanv_transformer_bs10",
     {{90, 1.009}, {80, 1.020}, {70, 1.031}, {60, 1.044}, {50, 1.058}, {40, 1.083}, {30, 1.123}, {20, 1.352}}},
    {"titanv_tv_densenet121_bs84",
     {{90, 1.026}, {80, 1.064}, {70, 1.104}, {60, 1.141}, {50, 1.176}, {40, 1.271}, {30, 1.447}, {20, 1.679}}},
    {"titanv_lstm_bs128",
     {{90, 1.017}, {80, 1.028}, {70, 1.032}, {60, 1.042}, {50, 1.065}, {40, 1.143}, {30, 1.301}, {20, 1.599}}},
};

// Says so where a claim does not hold; how many do not.
int Claim(bool holds, const std::string& what) {
  if (!holds) fmt::print("does not hold: {}\n", what);
  return holds ? 0 : 1;
}

// Recompute only on DTR's traces: our `dtr` against DTR's own figures, and `home` against both.
int BenchDtr() {
  int failed = 0;
  if (DataFile("").empty()) return fmt::print("recompute on DTR's traces: left out, EBBTIDE_DATA is not set\n"), 0;
  const DeviceProfile gpu = Must(FindProfile("titanv"));
  fmt::print("\nRecompute only, time over that of keeping everything\n{:28} {:>7} {:>9} {:>9} {:>9} {:>7}\n", "",
             "budget", "DTR's own", "dtr", "home", "");
  for (const auto& [name, figures] : kDtr) {
    const Subject subject = MakeSubject(Must(model::LoadModel(DataFile(name + ".json.gz"), {})), gpu);
    for (auto figure = figures.rbegin(); figure != figures.rend(); ++figure) {
      const Bytes budget = subject.plain_peak / 100 * figure->first;
      const plan::Problem problem = plan::MakeProblem(subject.workload, {}, {.budget = budget, .may_swap = false});
      const plan::PolicyResult dtr = plan::RunDtr({.graph = subject.graph, .problem = problem, .search = {}});
      const Nanos dtr_time = dtr.schedule ? sim::Simulate(subject.workload, *dtr.schedule, {}).time : plan::kInfeasible;
      const Nanos home = TimeOf(subject, problem, *Must(plan::FindPolicy("home")));
      const double ours =
          home == plan::kInfeasible ? 9 : static_cast<double>(home) / static_cast<double>(subject.plain_time);
      fmt::print("{:28} {:6}% {:9.3f} {:>9} {:9.4f} {:>7}\n", name, figure->first, figure->second,
                 Ratio(dtr_time, subject.plain_time), ours, ours <= figure->second + 0.0005 ? "" : "slower");
      std::fflush(stdout);
      failed += ours > figure->second + 0.0005;
    }
  }
  return Claim(failed == 0, fmt::format("home is as fast as DTR's own figure; slower at {} points", failed));
}

// Time over plain that others reach: DTR's figures, and what CP-SAT proved with two runs of each op, with some room for
// rounding.
double MostAllowed(const std::string& name, int percent) {
  if (name == "wide/layered_100" && percent == 90) return 1.0085;
  if (name == "wide/layered_100" && percent == 80) return 1.0235;
  const auto figures = kDtr.find(name);
  if (figures == kDtr.end() || !figures->second.contains(percent)) return 1e9;
  return figures->second.at(percent) + 0.0005;
}

// Recompute only, all graphs, from nearly everything down to a fifth: there is a plan wherever the floor allows it
// within 3 %, none slower than others' figures.
int BenchWide(const std::string& only) {
  constexpr double kAboveFloor = 1.03;
  int failed = 0;
  fmt::print("\nRecompute only, whole plans: time over plain\n{:28} {:>6} {:>7} {:>7} {:>8} {:>8} {:>9}\n", "",
             "budget", "floor", "found", "home", "bound", "seconds");
  std::vector<Measured> steps = MadeSteps();
  for (Measured& stored : StoredSteps()) steps.push_back(std::move(stored));
  for (const Measured& step : steps) {
    if (!only.empty() && only != step.name) continue;
    const Bytes peak = sim::PlainPeak(step.workload);
    const auto share = [&](Bytes bytes) { return 100 * static_cast<double>(bytes) / static_cast<double>(peak); };
    const plan::Problem any = plan::MakeProblem(step.workload, {}, {.budget = peak, .may_swap = false});
    const plan::Minimum minimum = plan::FindMinimum(any, {.seed = 0, .threads = DefaultSearch().threads});
    for (const int percent : {90, 80, 60, 50, 40, 30, 20}) {
      const Bytes budget = peak / 100 * percent;
      if (static_cast<double>(budget) < kAboveFloor * static_cast<double>(minimum.floor)) break;
      const plan::Problem problem = plan::MakeProblem(step.workload, {}, {.budget = budget, .may_swap = false});
      const auto start = std::chrono::steady_clock::now();
      const plan::Planned planned =
          plan::MakePlan(step.graph, problem, *Must(plan::FindPolicy("home")), DefaultSearch(), &minimum);
      const double seconds = Seconds(start);
      const Nanos plain = sim::PlainTime(step.workload), time = planned.plan ? planned.plan->time : plan::kInfeasible;
      const bool holds =
          planned.plan && static_cast<double>(time) <= MostAllowed(step.name, percent) * static_cast<double>(plain);
      failed += !holds;
      fmt::print("{:28} {:5}% {:6.1f}% {:6.1f}% {:>8} {:>8} {:9.1f} {}\n", step.name, percent, share(minimum.floor),
                 share(minimum.found), Ratio(time, plain), Ratio(plan::LowerBound(problem), plain), seconds,
                 holds ? "" : "<- does not hold");
      std::fflush(stdout);
    }
  }
  return failed;
}

// VGG-16's layer profile, around the 8,220.8 MB of the five tensors that make the difference (docs/plan.md).
int BenchProfile() {
  if (DataFile("").empty()) return fmt::print("the profile of VGG-16: left out, EBBTIDE_DATA is not set\n"), 0;
  const Subject subject =
      MakeSubject(Must(model::LoadModel(DataFile("layers_vgg16.txt"), {})), Must(FindProfile("titanv")));
  int failed = 0;
  fmt::print(
      "\nThe profile of VGG-16, recompute only: time over plain; Checkmate's own figure is 1.0298\n{:>9} {:>8} {:>8}\n",
      "budget", "home", "exact");
  for (const Bytes budget : {8'220'000'000, 8'221'000'000}) {
    const plan::Problem problem = plan::MakeProblem(subject.workload, {}, {.budget = budget, .may_swap = false});
    const Nanos home = TimeOf(subject, problem, *Must(plan::FindPolicy("home")));
    const Nanos exact = TimeOf(subject, problem, *Must(plan::FindPolicy("exact")));
    fmt::print("{:6} MB {:>8} {:>8}\n", budget / 1'000'000, Ratio(home, subject.plain_time),
               Ratio(exact, subject.plain_time));
    failed += Claim(home != plan::kInfeasible && home <= exact, "as fast as Checkmate's program in this model");
  }
  return failed;
}

// vDNN's own experiment: VGG-16, batch 256, in 12 GB, which it ran at a loss of 18 %.
int BenchVdnn() {
  fmt::print("\nVGG-16 batch 256 in 12 GB: time over that of an unlimited GPU\n{:30} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
             "", "plain ms", "vdnn-all", "vdnn-conv", "vdnn-dyn", "home");
  for (const bool winograd : {false, true}) {
    for (const char* name : {"titanx", "titanv"}) {
      const DeviceProfile gpu = Must(FindProfile(name));
      const Subject subject = Load("vgg16", 256, gpu, {.winograd = winograd});
      const Link link = LinkOf(gpu);
      const plan::Problem problem = plan::MakeProblem(subject.workload, link, {.budget = gpu.memory - gpu.context});
      fmt::print("{:30} {:9.0f}", fmt::format("{}{}", name, winograd ? "" : ", cuDNN without Winograd"),
                 static_cast<double>(subject.plain_time) / 1e6);
      for (const char* policy : {"vdnn-all", "vdnn-conv", "vdnn-dyn", "home"}) {
        fmt::print(" {:>9}", Ratio(TimeOf(subject, problem, *Must(plan::FindPolicy(policy))), subject.plain_time));
        std::fflush(stdout);
      }
      fmt::print("\n");
    }
  }
  return 0;
}

struct Means {
  double log_sum = 0;
  int count = 0;
  double best = 0;  // the largest gain
  void Add(double gain) { log_sum += std::log(gain), ++count, best = std::max(best, gain); }
  std::string Text() const {
    return count == 0 ? "-"
                      : fmt::format("mean {:.2f}x, up to {:.2f}x ({} points)", std::exp(log_sum / count), best, count);
  }
};

// Swap and recompute, six models that do not fit.
int BenchSwap(const std::string& only) {
  const DeviceProfile gpu = Must(FindProfile("v100-16gb"));
  std::map<std::string, Means> gains, tight_gains;
  Means over_best;
  std::vector<double> certified;         // shares of the overhead that no plan can avoid, where it is above 5 %
  std::vector<double> gaps, tight_gaps;  // to the bound over the plain time, at 30 % of the peak and more; from 20 % on
  std::vector<double> heights;           // the highest address over the most that lives at once
  int slower = 0, points = 0;
  for (const char* name : kSix) {
    if (!only.empty() && only != name) continue;
    const auto [batch, subject] = TooLarge(name, gpu, 16'000'000'000);
    for (const double link : {6e9, 12e9, 25e9}) {
      const Link copies{.to_device = link, .to_host = link, .latency = gpu.copy_latency};
      const plan::Problem any = plan::MakeProblem(subject.workload, copies, {.budget = subject.plain_peak});
      const Bytes least = plan::FindMinimum(any).found, most = subject.plain_peak / 10 * 9;
      fmt::print("\n{} batch {}, {:.1f} GB plain, link {:.0f} GB/s: time over plain\n{:>7}", name, batch,
                 static_cast<double>(subject.plain_peak) / 1e9, link / 1e9, "budget");
      for (const plan::Policy& policy : plan::Policies()) {
        if (policy.name != "none" && policy.name != "exact") fmt::print(" {:>15}", policy.name);
      }
      fmt::print(" {:>9} {:>9}\n", "bound", "certified");
      for (int step = 0; step < 8; ++step) {
        const Bytes budget = most - (most - least * 101 / 100) / 7 * step;
        const double share = static_cast<double>(budget) / static_cast<double>(subject.plain_peak);
        const plan::Problem problem = plan::MakeProblem(subject.workload, copies, {.budget = budget});
        fmt::print("{:6.1f}%", 100 * share);
        Nanos home = plan::kInfeasible, best = plan::kInfeasible, best_vdnn = plan::kInfeasible;
        for (const plan::Policy& policy : plan::Policies()) {
          if (policy.name == "none" || policy.name == "exact") continue;
          const plan::Planned planned = plan::MakePlan(subject.graph, problem, policy, DefaultSearch());
          const Nanos time = planned.plan ? planned.plan->time : plan::kInfeasible;
          fmt::print(" {:>15}", Ratio(time, subject.plain_time));
          std::fflush(stdout);
          if (policy.name == "home") {
            home = time;
            if (planned.plan)
              heights.push_back(static_cast<double>(planned.plan->peak) / static_cast<double>(planned.outcome.peak));
            continue;
          }
          if (time == plan::kInfeasible || home == plan::kInfeasible) continue;
          const double gain = static_cast<double>(time) / static_cast<double>(home);
          gains[std::string(policy.name)].Add(gain);
          if (share <= 0.6) tight_gains[std::string(policy.name)].Add(gain);
          best = std::min(best, time);
          if (policy.name.starts_with("vdnn")) best_vdnn = std::min(best_vdnn, time);
        }
        const Nanos bound = plan::LowerBound(problem);
        fmt::print(" {:>9}", Ratio(bound, subject.plain_time));
        if (home != plan::kInfeasible && share >= 0.2) {
          const double gap = static_cast<double>(home - bound) / static_cast<double>(subject.plain_time);
          (share >= 0.3 ? gaps : tight_gaps).push_back(gap);
        }
        if (home != plan::kInfeasible && home > subject.plain_time) {
          const double share =
              static_cast<double>(bound - subject.plain_time) / static_cast<double>(home - subject.plain_time);
          if (home > subject.plain_time / 100 * 105) certified.push_back(share);
          fmt::print(" {:9.2f}", share);
        }
        fmt::print("\n");
        std::fflush(stdout);
        ++points;
        if (best != plan::kInfeasible)
          over_best.Add(static_cast<double>(best) / static_cast<double>(home)), slower += best < home;
        if (best_vdnn != plan::kInfeasible && share <= 0.6)
          tight_gains["best vdnn"].Add(static_cast<double>(best_vdnn) / static_cast<double>(home));
      }
    }
  }
  fmt::print("\nThroughput of home over each policy where that is feasible\n");
  for (const auto& [policy, means] : gains) fmt::print("  {:16} {}\n", policy, means.Text());
  fmt::print("  {:16} {}\n  slower than the best of the others at {} of {} points\n", "best of them", over_best.Text(),
             slower, points);
  fmt::print("At budgets of 60 % and less\n");
  for (const auto& [policy, means] : tight_gains) fmt::print("  {:16} {}\n", policy, means.Text());
  if (!certified.empty()) {
    std::ranges::sort(certified);
    fmt::print("Of the overhead, where it is above 5 %, no plan can avoid: median {:.2f}, least {:.2f} ({} points)\n",
               certified[certified.size() / 2], certified.front(), certified.size());
  }
  const auto at = [](std::vector<double>& values, double part) {
    std::ranges::sort(values);
    return values.empty() ? 0 : values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
  };
  const double median = at(gaps, 0.5), ninth = at(gaps, 0.9), tight = at(tight_gaps, 1), height = at(heights, 1);
  fmt::print(
      "(time - bound) / plain from 30 % of the peak on: median {:.4f}, 90th percentile {:.4f}; from 20 %: at most "
      "{:.4f}\n"
      "highest address over what lives: median {:.4f}, at most {:.4f}\n",
      median, ninth, tight, at(heights, 0.5), height);
  return Claim(slower == 0, "home is as fast as the best of the others") +
         Claim(median <= 0.01 && ninth <= 0.03 && tight <= 0.08, "within 1 %, 3 % and 8 % of the bound") +
         Claim(height <= 1.005, "addresses within 0.5 % of what lives");
}

// What the parts of the search are worth, at equal evaluations.
int BenchSwarm() {
  const DeviceProfile gpu = Must(FindProfile("v100-16gb"));
  const Link link = LinkOf(gpu);
  fmt::print(
      "\nSearches at equal evaluations, half of the peak: time over plain\n{:14} {:>6} {:>11} {:>11} {:>11} {:>11} "
      "{:>11} {:>11}\n",
      "", "evals", "storages", "seeded", "unseeded", "full space", "local only", "random");
  for (const char* name : kSix) {
    const auto [batch, subject] = TooLarge(name, gpu, 16'000'000'000);
    const plan::Problem problem = plan::MakeProblem(subject.workload, link, {.budget = subject.plain_peak / 2});
    plan::SearchOptions search = DefaultSearch();
    search.evaluations = 1500;
    const auto show = [&](const plan::SearchResult& result) { return Ratio(result.time, subject.plain_time); };
    const plan::SearchResult seeded = plan::Swarm(problem, search);
    plan::SearchOptions other = search;
    other.seeded = false;
    const plan::SearchResult unseeded = plan::Swarm(problem, other);
    other.candidates.reduce = false;
    const plan::SearchResult full = plan::Swarm(problem, other);
    other = search;
    other.seeded = false;
    other.local_share = 1;
    const plan::SearchResult local = plan::Swarm(problem, other);
    const plan::SearchResult random = plan::RandomSearch(problem, search);
    fmt::print("{:14} {:>6} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}\n", name, search.evaluations,
               fmt::format("{}/{}", seeded.candidates, seeded.considered), show(seeded), show(unseeded), show(full),
               show(local), show(random));
    std::fflush(stdout);
  }
  return 0;
}

// A graph of 10^5 ops: seconds and memory of the whole process.
int BenchLarge(std::size_t ops) {
  const DeviceProfile gpu = Must(FindProfile("v100-16gb"));
  const Subject subject = MakeSubject(DeepNetwork::Build(ops), gpu);
  const Link link = LinkOf(gpu);
  const plan::Problem problem = plan::MakeProblem(subject.workload, link, {.budget = subject.plain_peak / 2});
  const auto start = std::chrono::steady_clock::now();
  const Nanos time = TimeOf(subject, problem, *Must(plan::FindPolicy("home")));
  const double seconds = Seconds(start);
  const Nanos bound = plan::LowerBound(problem);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(
      "\nA graph of {} ops at half of its peak: planned in {:.1f} s, the bound in {:.1f} s, {:.2f} GB of memory; time "
      "over plain {}, bound {}\n",
      subject.workload.ops(), seconds, Seconds(start) - seconds, static_cast<double>(usage.ru_maxrss) / 1e6,
      Ratio(time, subject.plain_time), Ratio(bound, subject.plain_time));
  return Claim(seconds <= 20, "100,000 ops in 20 s");
}

// Seconds that a search may take on two cores.
const std::map<std::string, double> kMostSeconds = {{"resnet50", 1}, {"resnet152", 2}, {"bert-large", 2}};

// What `ebbtide plan resnet50 --batch-size 128 --gpu v100-16gb --budget N%` does, part by part, in processor seconds,
// which other work on the machine hardly changes.
void TimeWholePlans() {
  const DeviceProfile gpu = Must(FindProfile("v100-16gb"));
  const Subject subject = Load("resnet50", 128, gpu);
  fmt::print(
      "\nWhole plans of resnet50, 128 images: processor seconds\n{:>7} {:>9} {:>7} {:>7} {:>7} {:>7} {:>11} {:>14}\n",
      "budget", "smallest", "search", "bound", "all", "home", "its bound", "address/live");
  for (const int percent : {60, 30, 20}) {
    const plan::Problem problem =
        plan::MakeProblem(subject.workload, LinkOf(gpu), {.budget = subject.plain_peak / 100 * percent});
    const double start = ProcessorSeconds();
    const plan::Minimum minimum = plan::FindMinimum(problem, {.seed = 0, .threads = DefaultSearch().threads});
    const double smallest = ProcessorSeconds();
    const plan::Planned planned =
        plan::MakePlan(subject.graph, problem, *Must(plan::FindPolicy("home")), DefaultSearch(), &minimum);
    const double searched = ProcessorSeconds();
    const Nanos bound = plan::LowerBound(problem);
    const double end = ProcessorSeconds();
    fmt::print("{:6}% {:9.2f} {:7.2f} {:7.2f} {:7.2f} {:>7} {:>11} {:14.4f}\n", percent, smallest - start,
               searched - smallest, end - searched, end - start,
               Ratio(planned.plan ? planned.plan->time : plan::kInfeasible, subject.plain_time),
               Ratio(bound, subject.plain_time),
               planned.plan ? static_cast<double>(planned.plan->peak) / static_cast<double>(planned.outcome.peak) : 0);
    std::fflush(stdout);
  }
}

int BenchSpeed() {
  int failed = 0;
  TimeWholePlans();
  const DeviceProfile gpu = Must(FindProfile("v100-16gb"));
  const Link link = LinkOf(gpu);
  fmt::print("\nSpeed of the default search at half of the peak\n{:14} {:>7} {:>7} {:>9} {:>10}\n", "", "ops", "evals",
             "seconds", "processor");
  for (const char* name : kSix) {
    const auto [batch, subject] = TooLarge(name, gpu, 16'000'000'000);
    const plan::Problem problem = plan::MakeProblem(subject.workload, link, {.budget = subject.plain_peak / 2});
    const auto start = std::chrono::steady_clock::now();
    const double processor = ProcessorSeconds();
    const plan::PolicyResult result =
        plan::RunHome({.graph = subject.graph, .problem = problem, .search = DefaultSearch()});
    const double seconds = Seconds(start);
    fmt::print("{:14} {:7} {:7} {:9.2f} {:10.2f}\n", name, subject.workload.ops(), result.evaluations, seconds,
               ProcessorSeconds() - processor);
    std::fflush(stdout);
    const auto most = kMostSeconds.find(name);
    if (most != kMostSeconds.end()) failed += Claim(seconds <= most->second, fmt::format("{} s", most->second));
  }
  const Subject trace = MakeSubject(DeepNetwork::Build(6000), gpu);
  const auto start = std::chrono::steady_clock::now();
  const double processor = ProcessorSeconds();
  plan::RunHome({.graph = trace.graph,
                 .problem = plan::MakeProblem(trace.workload, link, {.budget = trace.plain_peak / 2}),
                 .search = DefaultSearch()});
  const double seconds = Seconds(start);
  fmt::print("{:14} {:7} {:7} {:9.2f} {:10.2f}\n", "a deep network", trace.workload.ops(), "", seconds,
             ProcessorSeconds() - processor);
  return failed + Claim(seconds <= 5, "6,000 ops in 5 s");
}

}  // namespace
}  // namespace ebbtide

int main(int argc, char** argv) {
  const std::map<std::string, std::function<int()>> sections = {
      {"dtr", ebbtide::BenchDtr},
      {"swap", [&] { return ebbtide::BenchSwap(argc > 2 ? argv[2] : ""); }},
      {"swarm", ebbtide::BenchSwarm},
      {"speed", ebbtide::BenchSpeed},
      {"large", [&] { return ebbtide::BenchLarge(argc > 2 ? std::stoul(argv[2]) : 100'000); }},
      {"wide", [&] { return ebbtide::BenchWide(argc > 2 ? argv[2] : ""); }},
      {"profile", ebbtide::BenchProfile},
      {"vdnn", ebbtide::BenchVdnn}};
  int failed = 0;
  for (const auto& [name, run] : sections) {
    if (argc < 2 || name == argv[1]) failed += run();
  }
  return failed > 0 ? 1 : 0;
}
