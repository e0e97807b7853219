// Random steps for the simulator, some of them under plans that copy and recompute, in lanes that they share or not.
#pragma once

#include <cstdint>
#include <vector>

#include "share/scheduler/job.h"

namespace ebbtide::share::testing {

struct RandomJobs {
  std::vector<Job> jobs;
  std::vector<int> lanes;  // by job
  Link link;
  PipelineOptions pipeline;  // there is room for all
};

RandomJobs MakeRandomJobs(std::uint64_t seed);

}  // namespace ebbtide::share::testing
