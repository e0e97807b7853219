// Partitions of jobs into lanes.
#include "share/scheduler/lane_choices.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace ebbtide::share {
namespace {

constexpr std::size_t kMostForAll = 5;

std::vector<LaneChoice> Partitions(std::size_t jobs) {
  std::vector<LaneChoice> out = {{}};
  for (std::size_t i = 0; i < jobs; ++i) {
    std::vector<LaneChoice> next;
    for (const LaneChoice& partial : out) {
      for (int lane = 0; lane <= LanesOf(partial); ++lane) {
        next.push_back(partial);
        next.back().push_back(lane);
      }
    }
    out = std::move(next);
  }
  return out;
}

}  // namespace

int LanesOf(const LaneChoice& lanes) { return lanes.empty() ? 0 : *std::ranges::max_element(lanes) + 1; }

std::vector<LaneChoice> LaneChoices(std::size_t jobs) {
  if (jobs <= kMostForAll) {
    std::vector<LaneChoice> out = Partitions(jobs);
    std::ranges::stable_sort(out, std::greater<>(), LanesOf);
    return out;
  }
  LaneChoice own(jobs), one(jobs, 0), two(jobs);
  std::iota(own.begin(), own.end(), 0);
  for (std::size_t i = 0; i < jobs; ++i) two[i] = static_cast<int>(i % 2);
  return {own, two, one};
}

bool IsFinerThan(const LaneChoice& fine, const LaneChoice& coarse) {
  for (std::size_t i = 0; i < fine.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (fine[i] == fine[j] && coarse[i] != coarse[j]) return false;
    }
  }
  return true;
}

}  // namespace ebbtide::share
