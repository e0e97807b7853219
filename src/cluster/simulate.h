// Jobs come, wait, run beside each other and end, under a policy: a simulation by events.
//
// A job runs at the speed that rates.h gives it beside the others of its GPUs, the least of them where it has several.
// What a job takes of a GPU is its `memory`, from its start to its end. Where that exceeds what is left, or the
// policy's limit, the job is out of memory, those before it go on, and it runs again from its beginning on GPUs of its
// own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cluster/policies/policy.h"

namespace ebbtide::cluster {

struct SimulateOptions {
  double oom_seconds = 60;  // from a start to the out-of-memory error, and to its being noticed
  bool endless = false;     // jobs never end: the cluster fills
  bool keep_runs = true;
  std::function<bool()> stop = {};  // asked now and then; true ends it
};

// A job on GPUs, for a while.
struct Run {
  std::size_t job = 0;
  std::vector<std::size_t> gpus;
  double begin = 0, end = 0;
  bool oom = false;
};

struct Outcome {
  bool stopped = false;      // it was asked to stop; then nothing else is told
  double makespan = 0;       // seconds, from the first arrival to the last end
  std::int64_t oom = 0;      // starts that ran out of memory
  std::int64_t refused = 0;  // jobs that fit no GPU of the cluster
  std::int64_t waiting = 0;  // jobs that never started
  std::int64_t ended = 0;
  double mean_wait = 0;            // seconds, from an arrival to the first start
  double mean_completion = 0;      // seconds, from an arrival to the end
  double utilisation = 0;          // part of all GPUs in use, in the mean over the makespan
  double allocation = 0;           // part of all GPUs asked for by jobs that run, at most over time; by share or memory
  Bytes most_memory = 0;           // of one GPU, at any moment
  double gpu_seconds = 0;          // work that was done, in seconds of a GPU alone; of jobs that ended
  std::int64_t most_together = 0;  // jobs on one GPU
  std::vector<Run> runs;           // in the order of their beginnings
};

Outcome Simulate(const Hardware& hardware, const Workload& workload, Policy& policy,
                 const SimulateOptions& options = {});

}  // namespace ebbtide::cluster
