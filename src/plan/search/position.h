// A point of the search space, and random moves of it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/search/candidates.h"
#include "plan/search/rollout.h"

namespace ebbtide::plan {

// A generator whose stream depends on its key alone (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t key) : state_(key) {}
  std::uint64_t Next();
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  double Normal();
  std::size_t Below(std::size_t n) { return static_cast<std::size_t>(Next() % n); }

 private:
  std::uint64_t state_;
};

// For each candidate how much it leans to each of the three choices; the strongest wins, and by how much it leans to
// keeping rather than recomputing decides when it is given up for want of memory. The rest steers the whole rollout.
struct Position {
  IdVector<CandidateId, std::array<float, 3>> lean;  // keep, swap, recompute
  float distance_power = 1;
  float staleness_power = 0;
  float batch = 4;  // log2 of the share of idle storages that are chosen at once to be given up
};

Position RandomPosition(const Candidates& candidates, Random& random);
// The position that decodes to the preferences, as far as one does.
Position Encode(const Preferences& preferences, const Candidates& candidates);
Preferences Decode(const Position& position, const Candidates& candidates, const sim::Workload& workload);
// Changes a few candidates, near each other in the step, or the steering.
Position Mutate(const Position& position, Random& random);

}  // namespace ebbtide::plan
