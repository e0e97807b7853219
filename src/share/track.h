// A job's iteration laid out for the simulator: its steps, and the copies at each boundary.
#pragma once

#include <vector>

#include "share/job.h"

namespace ebbtide::share {

struct Track {
  struct Step {
    double launch = 0, body = 0;          // nanoseconds alone
    double share = 0;                     // of the GPU during the body
    std::vector<std::uint32_t> arrivals;  // stays whose copies to the device it is the first to need
  };
  struct Boundary {
    std::vector<std::uint32_t> leaving;   // copies to the host to queue, in order
    std::vector<std::uint32_t> ending;    // copies to the host to wait for
    std::vector<std::uint32_t> entering;  // copies to the device to queue, in order
  };
  std::vector<Step> steps;
  std::vector<Boundary> boundaries;  // one more than steps
  std::vector<std::uint32_t> group_of, group_end;
  std::vector<Nanos> copy_out, copy_in;  // by stay
};

Track MakeTrack(const Job& job, const sim::Link& link);

}  // namespace ebbtide::share
