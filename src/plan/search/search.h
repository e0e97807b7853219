// Searches for preferences: HOME's particle swarm, and local search, alone or on the swarm's best.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/search/candidates.h"
#include "plan/search/evaluate.h"

namespace ebbtide::plan {

struct SearchOptions {
  std::int64_t evaluations = 0;  // rollouts in all; 0: as many as suit the size of the graph
  std::uint64_t seed = 0;
  int threads = 1;
  bool seeded = true;        // begin with what simple rules prefer, not with random particles alone
  double local_share = 0.6;  // of the evaluations: local search on the best particle
  int particles = 16;
  CandidateOptions candidates;
  std::vector<Preferences> start;        // further preferences to begin with
  std::vector<sim::Schedule> schedules;  // further schedules to begin with; they need not be within the budget
  std::function<void(std::int64_t done, std::int64_t all, Nanos best)> progress;
  // Ends the search early, with what it has, as the problem's deadline does; asked from several threads.
  std::function<bool()> stop;
};

struct SearchResult {
  Preferences best;
  std::vector<Preferences> close;  // others that are nearly as good, of which the best comes first
  Nanos time = kInfeasible;        // kInfeasible: no feasible schedule was found
  std::int64_t evaluations = 0;
  std::size_t candidates = 0, considered = 0;
  bool stopped_early = false;
};

SearchResult Swarm(const Problem& problem, const SearchOptions& options);
// Independent random preferences: what a search has to beat.
SearchResult RandomSearch(const Problem& problem, const SearchOptions& options);

}  // namespace ebbtide::plan
