// Random programs on the tide allocator, and what is wrong with them: every block is written and read by declared
// operations under the phantom's race checker, and each answer of the allocator is compared with a plain account of
// pages, blocks, last uses and quotas. Used by tests, by the soak, and with seeded bugs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tide/tide.h"

namespace ebbtide::tide {

struct TideProgramOptions {
  std::uint64_t seed = 1;
  std::size_t streams = 16;
  std::int64_t operations = 10000;
  Bytes capacity = 256 * kMiB;
  std::size_t live = 400;          // blocks at a time, at most
  std::size_t progress = 35;       // of 1000 operations: the device finishes what a stream has
  bool quotas = false;             // three jobs with guarantees, and one without
  double refusals = 0;             // the share of the device's pages that it refuses at first
  std::int64_t check_every = 256;  // operations between checks of all structures
};

// One line for each thing that went wrong; at most a few.
std::vector<std::string> RunTideProgram(const TideProgramOptions& options);

struct TideProgramCounts {
  std::int64_t allocations = 0, frees = 0, waits = 0, host_waits = 0, out_of_memory = 0, accesses = 0;
  std::array<std::int64_t, TideAllocator::kClasses> met{};
};
std::vector<std::string> RunTideProgram(const TideProgramOptions& options, TideProgramCounts& counts);

}  // namespace ebbtide::tide
