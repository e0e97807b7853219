// Steps of a few ops forward and as many backward, with random sizes, times and shares of the device.
#include "tests/share/random_jobs.h"

#include <algorithm>
#include <random>

#include "plan/make_plan.h"
#include "tests/support/hand_graph.h"

namespace ebbtide::share::testing {
namespace {

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random_(seed) {}

  RandomJobs Run() {
    RandomJobs out;
    out.link = {.to_device = 1e9, .to_host = 1e9};
    const std::int64_t count = Draw(2, 4), lanes = Draw(1, 2);
    std::vector<Bytes> peaks(static_cast<std::size_t>(lanes), 0);
    Bytes state = 0, more = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto lane = static_cast<std::size_t>(i < lanes ? i : Draw(0, lanes - 1));
      out.jobs.push_back(RandomJob(static_cast<int>(i), out.link));
      out.lanes.push_back(static_cast<int>(lane));
      const Placement& placement = out.jobs.back().placement;
      state += RoundUp(placement.state, kAlignment);
      peaks[lane] = std::max(peaks[lane], RoundUp(placement.height, kAlignment));
      more += placement.height;
    }
    for (const Bytes peak : peaks) state += peak;
    out.pipeline = {.capacity = RoundUp(state + more * Draw(0, 4) / 4, kAlignment),
                    .alignment = kAlignment,
                    .ahead = static_cast<int>(Draw(0, 2)),
                    .start_at_ebb = Draw(0, 1) == 0};
    return out;
  }

 private:
  static constexpr Bytes kAlignment = 8;

  std::int64_t Draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

  TrainingGraph RandomGraph() {
    HandGraph step;
    const TensorId weight = step.Present(Draw(1, 50));
    std::vector<TensorId> saved = {weight};
    const std::int64_t depth = Draw(1, 5);
    for (std::int64_t i = 0; i < depth; ++i) {
      saved.push_back(step.Make("forward", {saved.back(), weight}, Draw(1, 200), {.time = Draw(1, 300)}));
    }
    TensorId gradient = saved.back();
    for (std::int64_t i = depth; i > 0; --i) {
      gradient = step.Make("backward", {gradient, saved[static_cast<std::size_t>(i)]}, Draw(1, 60),
                           {.phase = Phase::kBackward, .time = Draw(1, 300), .workspace = Draw(0, 1) * Draw(1, 40)});
    }
    return step.graph;
  }

  Job RandomJob(int number, const Link& link) {
    TrainingOptions options{.model = "job " + std::to_string(number), .weight = Draw(1, 3), .alignment = kAlignment};
    options.priority = Draw(0, 5) == 0 ? 1 : 0;
    const double shares[] = {0.3, 0.5, 1};
    const auto training = MakeMeasuredTraining(std::move(options), RandomGraph(), {.share = shares[Draw(0, 2)]});
    std::shared_ptr<const plan::Plan> plan;
    if (Draw(0, 2) == 0) {
      const Bytes budget = sim::PlainPeak(training->workload) * Draw(75, 100) / 100;
      const plan::Problem problem = plan::MakeProblem(training->workload, link, {.budget = budget});
      plan::SearchOptions search;
      search.evaluations = 8;
      plan::Planned planned = plan::MakePlan(training->graph, problem, **plan::FindPolicy("home"), search);
      if (planned.plan) plan = std::make_shared<const plan::Plan>(*std::move(planned.plan));
    }
    return MakeJob(training, std::move(plan), Draw(0, 1) * 2000, {.groups = static_cast<int>(Draw(1, 6))}, link);
  }

  std::mt19937_64 random_;
};

}  // namespace

RandomJobs MakeRandomJobs(std::uint64_t seed) { return Maker(seed).Run(); }

}  // namespace ebbtide::share::testing
