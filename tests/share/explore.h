// Every interleaving of the real pipeline for a few small jobs: what the scheduling threads ask for and what the device
// finishes, in every order there is. States that were seen are not gone into again.
#pragma once

#include <string>
#include <vector>

#include "share/scheduler/pipeline.h"

namespace ebbtide::share::testing {

struct ExploreOptions {
  PipelineOptions pipeline;
  // Groups of a job that are queued while the device has not finished them. 0: a group counts as queued only when it
  // has finished.
  int run_ahead = 0;
  std::vector<JobShape> actual;  // what the jobs use, where that is not what they declare
  bool with_aborts = false;      // any job may abort whenever nothing of it runs
};

struct Explored {
  std::size_t states = 0;
  std::size_t overlaps = 0;  // states in which groups of different jobs run at once
  std::string fault;         // empty: no deadlock, nothing over capacity
};

Explored Explore(const std::vector<JobShape>& shapes, const ExploreOptions& options);

}  // namespace ebbtide::share::testing
