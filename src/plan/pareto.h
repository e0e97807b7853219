// Time over budget: the fastest plans from the plain peak down to the smallest budget that works.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "plan/bound/bound.h"
#include "plan/make_plan.h"

namespace ebbtide::plan {

struct ParetoPoint {
  Bytes budget = 0;
  std::shared_ptr<const Planned> planned;  // the fastest plan known whose peak is within the budget; null: none is
  Nanos lower_bound = 0;                   // no plan within the budget is faster; 0: not worked out

  bool feasible() const { return planned != nullptr; }
};

// Round shares of the plain peak, from all of it down, and `minimum` itself: at most 14, the largest first.
std::vector<Bytes> ParetoBudgets(Bytes plain_peak, Bytes minimum);

struct ParetoOptions {
  SearchOptions search;              // of each plan
  const Minimum* minimum = nullptr;  // where it is known; as MakePlan takes it
  int threads = 1;                   // budgets are planned side by side; the plans do not depend on it
  bool bound = true;                 // a lower bound for each
  // `share` of the work on the budget of that number is done. Called from several threads.
  std::function<void(std::size_t number, double share)> progress;
};

// A point for each budget and for each of `known`, by budget, the largest first. Time never rises with the budget: a
// plan serves every budget from its peak up, and a lower bound every budget below its own. Each budget gets its share
// of the time until the problem's deadline; those that it leaves no time for have no point.
std::vector<ParetoPoint> Pareto(const TrainingGraph& graph, const Problem& problem, const Policy& policy,
                                const std::vector<Bytes>& budgets, std::vector<ParetoPoint> known,
                                const ParetoOptions& options);

// ---- Its parts
// Gives each point the best of what all of them know, and orders them.
void ShareKnowledge(std::vector<ParetoPoint>& points);

}  // namespace ebbtide::plan
