// The search over decisions: a swarm of them, each improved by local search, drawn to the best of all.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "plan/decide/improve.h"

namespace ebbtide::plan {

// Where a number of schedules is asked for: changes of decisions that take about as long as a rollout.
inline constexpr std::int64_t kChangesPerRollout = 100;
// A search of a few seconds. A change costs what it changes, which hardly grows with the graph up to some thousand ops.
std::int64_t DefaultChanges(const sim::Workload& workload);

struct DecideOptions {
  std::int64_t changes = 0;  // decisions that are changed and evaluated, in all
  std::uint64_t seed = 0;
  int threads = 1;
  int particles = 2;
  bool swarm = true;  // false: each particle goes on alone
  bool local = true;  // false: between two pulls of the swarm only a few changes are made, and worse ones not taken
  // Schedules to begin with, the first ones first. What the first one copies to the host and back is copied in all.
  std::vector<sim::Schedule> start;
  std::function<void(double share)> progress;
  std::function<bool()> stop;  // ends the search early, with what it has; asked from several threads
};

struct DecideResult {
  std::optional<sim::Schedule> schedule;  // within the budget; none: none was found
  sim::Schedule lowest;                   // where none was found: the one that is the least above it
  std::int64_t changes = 0;
};

// The same seed gives the same result at any number of threads.
DecideResult Decide(const Problem& problem, const DecideOptions& options);

// The schedule with the lowest peak that is found, however long it takes. Does not depend on the problem's budget.
sim::Schedule DecideLowest(const Problem& problem, const DecideOptions& options);

// The runs again of a schedule that others made.
std::vector<RunAgain> RunsOf(const Problem& problem, const Units& units, const sim::Schedule& schedule);

// What it copies to the host and back, as far as stages can tell.
std::vector<Absence> AbsencesOf(const Problem& problem, const sim::Schedule& schedule);

}  // namespace ebbtide::plan
