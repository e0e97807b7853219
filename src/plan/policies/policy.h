// A policy makes a schedule for a problem. One file each; all are compared in the one simulator.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/problem.h"
#include "plan/search/search.h"

namespace ebbtide::plan {

struct PolicyInput {
  const TrainingGraph& graph;
  const Problem& problem;
  SearchOptions search;  // for policies that search
};

struct PolicyResult {
  std::optional<sim::Schedule> schedule;  // within the budget, without addresses; none: the policy found none
  bool stopped_early = false;             // it might have found better with more time
  std::int64_t evaluations = 0;
  std::optional<Preferences> preferences;  // that led to the schedule, where preferences did
  std::vector<Preferences> close;          // whose schedules are nearly as fast
};

// Of a policy that does not search.
inline PolicyResult Found(sim::Schedule schedule) {
  PolicyResult out;
  out.schedule = std::move(schedule);
  return out;
}

struct Policy {
  std::string_view name;     // what --policy takes
  std::string_view summary;  // one line
  PolicyResult (*run)(const PolicyInput& input);
  std::size_t most_ops = ~std::size_t{0};  // larger graphs are not for it: it would stop early
};

// In the order in which they are shown.
const std::vector<Policy>& Policies();
Result<const Policy*> FindPolicy(std::string_view name);

// ---- One file each
inline constexpr std::size_t kExactOps = 160;
PolicyResult RunNone(const PolicyInput& input);
PolicyResult RunHome(const PolicyInput& input);
PolicyResult RunVdnnAll(const PolicyInput& input);
PolicyResult RunVdnnConv(const PolicyInput& input);
PolicyResult RunVdnnDyn(const PolicyInput& input);
PolicyResult RunSuperNeurons(const PolicyInput& input);
PolicyResult RunCapuchin(const PolicyInput& input);
PolicyResult RunCheckpointSqrt(const PolicyInput& input);
PolicyResult RunDtr(const PolicyInput& input);
PolicyResult RunExact(const PolicyInput& input);

}  // namespace ebbtide::plan
