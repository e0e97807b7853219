// A job's iteration laid out for the simulator: its steps, its groups, and the copies at each boundary.
#pragma once

#include <vector>

#include "share/scheduler/job.h"
#include "sim/layout.h"

namespace ebbtide::share {

struct JobLayout {
  struct Step {
    double launch = 0, body = 0;  // nanoseconds alone
    double share = 0;             // of the GPU during the body
  };
  IdVector<StepId, Step> steps;
  sim::Layout boundaries;                     // which copies are queued, waited for and needed where
  IdVector<StayId, Nanos> copy_out, copy_in;  // 0 where it is not copied
  IdVector<StepId, std::uint32_t> group_of;
  std::vector<StepId> group_end;  // by group: one past its last step
};

JobLayout LayOut(const Job& job, const Link& link);

}  // namespace ebbtide::share
