// The ways to put jobs into lanes.
#pragma once

#include <cstddef>
#include <vector>

namespace ebbtide::share {

// The lane of each job; lanes are numbered by their first job.
using LaneChoice = std::vector<int>;

// All of them for up to five jobs; of more, one lane each, two lanes in turn, and one for all. Those with more lanes
// come first.
std::vector<LaneChoice> LaneChoices(std::size_t jobs);

int LanesOf(const LaneChoice& lanes);
// Whether jobs that share a lane in `fine` do so in `coarse`.
bool IsFinerThan(const LaneChoice& fine, const LaneChoice& coarse);

}  // namespace ebbtide::share
