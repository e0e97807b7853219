// A mix of trainings on one GPU: which lanes, which plans, and how fast it all is.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "share/job.h"
#include "share/simulate.h"

namespace ebbtide::share {

struct MixOptions {
  DeviceProfile gpu;
  Bytes capacity = 0;  // of device memory for all jobs; 0: what the GPU has beside one context
  sim::Link link;
  CutOptions cut{.groups = 16};
  bool may_plan = true;           // jobs that are too tall may run under a plan
  std::int64_t evaluations = 64;  // of the search for such a plan
  int threads = 1;
  TogetherOptions together;
};

MixOptions OptionsFor(const DeviceProfile& gpu);

struct Mix {
  bool fits = false;
  std::string reason;  // why it does not: what is needed and what there is
  std::vector<Job> jobs;
  std::vector<int> lanes;  // by job
  std::vector<Bytes> lane_sizes;
  Bytes capacity = 0;
  Bytes peak = 0;  // the most of the memory in use at a time: state, and heights in the lanes
  bool at_ebb = true;
  Nanos exclusive = 0;  // one after the other: every job runs one iteration alone
  Together together;

  // Over one after the other.
  double speedup() const {
    return together.round > 0 ? static_cast<double>(exclusive) / static_cast<double>(together.round) : 0;
  }
};

// Lanes by the throughput of what is simulated: of all ways to share lanes that fit (up to five jobs; beyond, one lane
// each or one for all). Plans where nothing fits without.
Mix ArrangeMix(const std::vector<std::shared_ptr<const Training>>& trainings, const MixOptions& options);

// What a step keeps from iteration to iteration.
Bytes StateOf(const sim::Workload& workload);
// Whether the mix fits without plans: quick, for searches. Jobs of one training may share it.
bool FitsInOneLane(const std::vector<std::shared_ptr<const Training>>& trainings, const MixOptions& options);

}  // namespace ebbtide::share
