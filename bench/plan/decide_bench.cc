// The search over decisions, recompute only: what swarm and local search are each worth, and how quick a changed
// decision is beside counting everything anew. Fails where a claim does not hold.
//   bench_plan_decide [swarm|speed|lowest [NAME]]   (all of them without a name; with EBBTIDE_DATA also its graphs)
#include <fmt/format.h>

#include <ctime>
#include <string>
#include <vector>

#include "bench/plan/subjects.h"
#include "model/model.h"
#include "plan/decide/backward.h"
#include "plan/decide/decide.h"
#include "sim/simulate.h"

namespace ebbtide {
namespace {

std::vector<Measured> Subjects() {
  std::vector<Measured> out = MadeSteps();
  for (Measured& stored : StoredSteps()) {
    if (stored.workload.ops() <= 1000) out.push_back(std::move(stored));
  }
  return out;
}

plan::Problem ProblemOf(const Measured& subject, int percent) {
  return plan::MakeProblem(subject.workload, {},
                           {.budget = sim::PlainPeak(subject.workload) / 100 * percent, .may_swap = false});
}

double OverPlain(const Measured& subject, Nanos time) {
  return static_cast<double>(time) / static_cast<double>(sim::PlainTime(subject.workload));
}

int BenchSwarm() {
  fmt::print(
      "\nEqual changes (200,000) and equal starts, 80 % of the peak: time over plain; -: above the budget\n{:24} "
      "{:>8} {:>8} {:>8} {:>8}\n",
      "", "both", "local", "swarm", "neither");
  for (const Measured& subject : Subjects()) {
    const plan::Problem problem = ProblemOf(subject, 80);
    if (plan::Floor(problem) > problem.limits.budget) continue;
    fmt::print("{:24}", subject.name);
    for (const auto& [swarm, local] : {std::pair(true, true), {false, true}, {true, false}, {false, false}}) {
      plan::DecideOptions options;
      options.changes = 200'000;
      options.threads = 2;
      options.particles = 4;
      options.swarm = swarm;
      options.local = local;
      const plan::DecideResult result = plan::Decide(problem, options);
      fmt::print(
          " {:>8}",
          result.schedule
              ? fmt::format("{:.4f}", OverPlain(subject, sim::Simulate(subject.workload, *result.schedule, {}).time))
              : "-");
      std::fflush(stdout);
    }
    fmt::print("\n");
  }
  return 0;
}

// Changes of decisions by seconds of this thread, each evaluated as it is made, and from nothing.
int BenchSpeed() {
  model::ModelOptions options;
  options.device = model::Device::kCuda;
  options.batch_size = 256;
  const Measured subject = MakeMeasured("resnet50", *model::LoadModel("resnet50", options));
  const plan::Problem problem = ProblemOf(subject, 50);
  const plan::Units units = plan::FindUnits(problem);
  const auto seconds_of = [](std::clock_t since) {
    return static_cast<double>(std::clock() - since) / static_cast<double>(CLOCKS_PER_SEC);
  };
  plan::Improver improver(problem, units, {}, 1);
  improver.Start({});
  std::clock_t start = std::clock();
  improver.Fit(200'000, 0.3, {});
  improver.Run(200'000, 0.6, 0, {});
  const double kept_up = static_cast<double>(improver.evaluations()) / seconds_of(start);
  start = std::clock();
  constexpr int kFull = 20;
  for (int i = 0; i < kFull; ++i) {
    plan::Retention retention(problem, units);
    retention.Load(improver.best().runs);
  }
  const double full = kFull / seconds_of(start);
  const bool holds = kept_up >= 1e5;
  fmt::print("\nresnet50, {} ops, half of the peak: {:.0f} changes per second kept up, {:.0f} from nothing {}\n",
             subject.workload.ops(), kept_up, full, holds ? "" : "<- does not hold");
  return holds ? 0 : 1;
}

// How little may live at once by decisions from the end of the step to its beginning, and what that takes.
int BenchLowest(const std::string& only) {
  fmt::print("\nDecisions from the end to the beginning\n{:28} {:>8} {:>12} {:>10}\n", "", "of peak", "time",
             "processor");
  for (const Measured& subject : Subjects()) {
    if (!only.empty() && only != subject.name) continue;
    const plan::Problem problem = ProblemOf(subject, 100);
    const plan::Units units = plan::FindUnits(problem);
    const Bytes peak = sim::PlainPeak(subject.workload);
    const std::clock_t start = std::clock();
    const auto runs = plan::LowestBackwardRuns(problem, units, plan::Floor(problem), peak);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    plan::Retention retention(problem, units);
    if (!runs.empty()) retention.Load(runs.back());
    const auto plain = static_cast<double>(sim::PlainTime(subject.workload));
    fmt::print("{:28} {:7.1f}% {:12.3f} {:9.1f}s\n", subject.name,
               100 * static_cast<double>(retention.peak()) / static_cast<double>(peak),
               1 + static_cast<double>(retention.again()) / plain, seconds);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace ebbtide

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  int failed = 0;
  if (only.empty() || only == "speed") failed += ebbtide::BenchSpeed();
  if (only.empty() || only == "swarm") failed += ebbtide::BenchSwarm();
  if (only.empty() || only == "lowest") failed += ebbtide::BenchLowest(argc > 2 ? argv[2] : "");
  return failed > 0 ? 1 : 0;
}
