// From a graph and a budget to a plan with addresses, or to the reason why there is none.
#pragma once

#include <optional>

#include "plan/plan.h"
#include "plan/policies/policy.h"
#include "sim/simulate.h"

namespace ebbtide::plan {

struct Planned {
  std::optional<Plan> plan;  // none: the policy found no schedule within the budget
  sim::Outcome outcome;      // of the plan, with its timeline
  bool stopped_early = false;
  std::int64_t evaluations = 0;
};

// The smallest budget for which the home policy's rules find a plan, and what no plan can do without.
struct Minimum {
  Bytes found = 0;         // addresses included: the home policy has a plan for this budget and any above it
  sim::Schedule schedule;  // that takes `found`, with addresses
  Nanos time = 0;          // that it takes: no plan of the home policy for more memory is slower
  Bytes floor = 0;
  OpId op;  // the op that needs `floor`
};
struct MinimumOptions {
  std::int64_t changes = 0;  // of the search over decisions; 0: as many as suit the size of the graph
  std::uint64_t seed = 0;
  int threads = 1;
};
// Does not depend on the budget of the problem, nor on the number of threads. Ends at the problem's deadline, with the
// smallest budget known by then.
Minimum FindMinimum(const Problem& problem, const MinimumOptions& options = {});

// Whether the home policy searches for plans below the minimum as well: before a deadline there may have been no time
// to find it, and small steps without copies have plans that only a search for their own budget comes upon.
bool LooksBelowTheMinimum(const Problem& problem);

// The plan keeps the budget with its addresses: where they do not fit, the policy is asked for less.
// `minimum`, where it is known: the home policy then has a plan for every budget from there on, no slower than that
// one, and none below it unless LooksBelowTheMinimum. The plan has passed Validate. Where the problem is cancelled on
// the way there is none. Behind the problem's deadline what is there is taken; the home policy then still tries what
// needs least memory, so that `plan` is empty only where that found none either.
Planned MakePlan(const TrainingGraph& graph, const Problem& problem, const Policy& policy, const SearchOptions& search,
                 const Minimum* minimum = nullptr);

}  // namespace ebbtide::plan
