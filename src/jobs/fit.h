// The largest batch on each GPU, and the smallest GPU for a batch: the question of `ebbtide fit`, and its answer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "device/profile.h"
#include "jobs/model.h"
#include "jobs/training.h"
#include "plan/largest_batch.h"

namespace ebbtide::jobs {

struct FitRequest {
  ModelRequest model;  // of CUDA's kernels; with "--batch-size" given, the batch is asked after as well
  TrainingRequest training = {};
  std::vector<std::string> gpus = {};        // names, or paths of profiles
  std::vector<DeviceProfile> profiles = {};  // beside `gpus`; where there are none of both: all that are built in
  bool with_plan = false;                    // also the largest batch that a plan makes fit
  std::optional<double> slowdown = {};       // of a plan: how many times as long an iteration may take; default 2
  std::optional<std::string> policy = {};    // who makes the plan; default home
};

// The largest batch with a plan.
struct FitWithPlan {
  Bytes budget = 0;                 // the GPU's memory beside its context
  std::int64_t max_batch = 0;       // 0: none
  std::int64_t max_batch_kept = 0;  // when everything is kept, in the memory that a plan has
  Nanos kept_time = 0;              // of an iteration of that batch
  Nanos time = 0, plain_time = 0;   // of an iteration of max_batch: with the plan; with memory for everything
  Bytes peak = 0;
  plan::Obstacle obstacle = plan::Obstacle::kNone;  // for a larger batch
  std::int64_t none_from = 0;  // from this batch on no plan can do it, whoever makes it; 0: not known

  double slowdown() const;
  // "memory" or "time"; null: nothing that was tried keeps larger batches out.
  const char* limited_by() const;
};

struct FitOnGpu {
  std::string gpu;
  Bytes memory = 0;
  std::int64_t max_batch_safe = 0;       // whose safe figure fits too; 0: not even one sample's does
  std::int64_t max_batch = 0;            // that fits if all goes as estimated; 0: not even one sample does
  bool fits_batch = false;               // the batch that was asked for
  bool is_batch_safe = false;            // and whether its safe figure fits
  std::optional<FitWithPlan> with_plan;  // where it was asked for
  // Of the batch that was asked for, else of the largest that is safe, else of the largest; 0: not one sample fits.
  std::int64_t timed_batch = 0;
  Nanos time = 0;                 // of an iteration of it, nothing moved; with collectives
  double samples_per_second = 0;  // of all GPUs together
};

// One way of several GPUs to share the work.
struct FitLayout {
  std::string flags;           // "--tp 2 --fsdp"
  std::string refused;         // why there are no figures; empty: there are
  std::vector<FitOnGpu> gpus;  // smallest memory first
};

// What plans were asked for.
struct FitTerms {
  std::string policy;
  double slowdown = 2;
  std::int64_t passes = 1;  // forward and backward passes of an iteration, each of a batch
};

struct FitResult {
  std::string model;
  std::map<std::string, std::string> meta;  // of the step, as TrainingGraph has it, without its batch
  std::optional<std::int64_t> batch;        // that was asked for
  std::optional<FitTerms> terms;            // where plans were asked for
  double safe_probability = 0;              // with which a safe batch is meant to fit
  std::vector<FitOnGpu> gpus;               // smallest memory first; with `layouts`, of each GPU the best of them
  std::vector<FitLayout> layouts;           // where several GPUs were given and not how they share the work

  // Of the GPUs on which the batch fits, the one with least memory; null: none, or no batch was asked for.
  const FitOnGpu* smallest() const;
  // The same of those on which it is safe.
  const FitOnGpu* smallest_safe() const;
  // Whether the batch that was asked for fits one of the GPUs; where none was, whether any batch does.
  bool found() const;
};

Result<FitResult> Fit(const FitRequest& request, const JobContext& context);

}  // namespace ebbtide::jobs
