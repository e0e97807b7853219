// What iterations leave behind: iterations are told apart by what repeats, and what each of them made and nobody freed
// is a leak.
#pragma once

#include <cstdint>
#include <vector>

#include "jobs/explain.h"

namespace ebbtide::jobs {

// Entries of the history at which an iteration ends: the optimizer's steps where they allocate, else what comes again
// most evenly. Fewer than two: none could be told.
std::vector<std::int64_t> IterationEnds(const trace::HeldMemory& memory);

struct Leak {
  std::int64_t iterations = 0;  // compared: whole ones, without the first, which makes what stays
  Bytes per_iteration = 0;
  std::vector<LeakedLine> lines;  // the largest first
};
Leak FindLeak(const trace::HeldMemory& memory);

}  // namespace ebbtide::jobs
