// Plans for many budgets, which then share what they know.
#include "plan/pareto.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>

#include "base/parallel.h"

namespace ebbtide::plan {
namespace {

constexpr std::size_t kMostPoints = 14;
constexpr std::array kSteps{0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 2.5, 5.0, 10.0};  // percent of the plain peak

ParetoPoint PlanFor(const TrainingGraph& graph, const Problem& problem, const Policy& policy, Bytes budget,
                    const ParetoOptions& options, std::size_t number) {
  constexpr double kShareOfSearch = 0.6;
  Problem asked = problem;
  asked.limits.budget = budget;
  SearchOptions search = options.search;
  search.threads = 1;
  if (options.progress) {
    search.progress = [&](std::int64_t done, std::int64_t all, Nanos) {
      options.progress(
          number, kShareOfSearch * static_cast<double>(done) / static_cast<double>(std::max<std::int64_t>(all, 1)));
    };
  }
  ParetoPoint point{.budget = budget, .planned = nullptr, .lower_bound = 0};
  asked.deadline = problem.deadline.Part(kShareOfSearch);
  Planned planned = MakePlan(graph, asked, policy, search, options.minimum);
  asked.deadline = problem.deadline;
  if (options.progress) options.progress(number, kShareOfSearch);
  if (planned.plan) point.planned = std::make_shared<const Planned>(std::move(planned));
  if (options.bound) point.lower_bound = LowerBound(asked);
  if (options.progress) options.progress(number, 1);
  return point;
}

}  // namespace

std::vector<Bytes> ParetoBudgets(Bytes plain_peak, Bytes minimum) {
  if (minimum >= plain_peak) return {minimum};
  const double lowest = 100.0 * static_cast<double>(minimum) / static_cast<double>(plain_peak);
  const auto shares = [&](double step) { return static_cast<std::size_t>((100 - lowest) / step) + 1; };
  const auto step = std::ranges::find_if(kSteps, [&](double s) { return shares(s) < kMostPoints; });
  std::vector<Bytes> out;
  for (std::size_t i = 0; step != kSteps.end() && i < shares(*step); ++i) {
    // As the command line takes `--budget 90%`.
    const auto budget =
        static_cast<Bytes>(static_cast<double>(plain_peak) * (100 - static_cast<double>(i) * *step) / 100);
    if (budget > minimum) out.push_back(budget);
  }
  out.push_back(minimum);
  return out;
}

void ShareKnowledge(std::vector<ParetoPoint>& points) {
  std::ranges::stable_sort(points, std::greater<>(), &ParetoPoint::budget);
  std::vector<std::shared_ptr<const Planned>> plans;
  for (const ParetoPoint& point : points) {
    if (point.planned) plans.push_back(point.planned);
  }
  Nanos bound = 0;
  for (ParetoPoint& point : points) {
    point.lower_bound = bound = std::max(bound, point.lower_bound);
    for (const auto& other : plans) {
      const bool fits = other->plan->peak <= point.budget;
      if (fits && (!point.planned || other->plan->time < point.planned->plan->time)) point.planned = other;
    }
  }
}

std::vector<ParetoPoint> Pareto(const TrainingGraph& graph, const Problem& problem, const Policy& policy,
                                const std::vector<Bytes>& budgets, std::vector<ParetoPoint> known,
                                const ParetoOptions& options) {
  std::vector<ParetoPoint> points(budgets.size());
  std::vector<std::exception_ptr> faults(budgets.size());
  const auto threads = static_cast<std::size_t>(std::max(options.threads, 1));
  std::atomic<std::size_t> to_come = budgets.size();
  ForEachIndex(budgets.size(), options.threads, [&](std::size_t i) {
    const std::size_t rounds = std::max<std::size_t>((to_come-- + threads - 1) / threads, 1);
    points[i].budget = budgets[i];
    if (IsLate(problem)) return;
    Problem own = problem;
    own.deadline = problem.deadline.Part(1 / static_cast<double>(rounds));
    try {
      points[i] = PlanFor(graph, own, policy, budgets[i], options, i);
    } catch (...) {
      faults[i] = std::current_exception();
    }
  });
  for (const std::exception_ptr& fault : faults) {
    if (fault) std::rethrow_exception(fault);
  }
  if (problem.deadline.exists()) {
    std::erase_if(points, [](const ParetoPoint& point) { return !point.feasible() && point.lower_bound == 0; });
  }
  std::ranges::move(known, std::back_inserter(points));
  ShareKnowledge(points);
  return points;
}

}  // namespace ebbtide::plan
