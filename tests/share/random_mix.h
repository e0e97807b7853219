// One random mix of jobs on the real pipeline: they join, run, run ahead of the device, abort, pause and leave.
#pragma once

#include <cstdint>
#include <string>

namespace ebbtide::share::testing {

struct MixResult {
  std::string fault;  // empty: no collision of addresses, no deadlock, no job that starves, all memory back in the end
  std::int64_t iterations = 0, joins = 0, refused = 0, aborts = 0, leaves = 0;
  std::int64_t overlaps = 0;  // moments at which groups of different jobs ran
};

MixResult RunRandomMix(std::uint64_t seed);

}  // namespace ebbtide::share::testing
