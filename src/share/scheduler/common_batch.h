// The largest batch at which a mix still fits, for all of its jobs alike.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "share/scheduler/arrange.h"

namespace ebbtide::share {

using TrainingAt = std::function<Result<std::shared_ptr<const Training>>(std::size_t job, std::int64_t batch)>;

struct CommonBatchOptions {
  // With `may_plan`, what plans make fit counts too, up to the batch alone. `progress` and `stop` are those of the
  // search.
  MixOptions mix;
  double least_overlap = 0.1;                 // of the group runs: less is taking turns, not sharing
  std::int64_t most = std::int64_t{1} << 24;  // larger batches are not tried
};

struct CommonBatch {
  std::vector<std::int64_t> solo;     // by job: the largest batch alone, placed as in a mix; 0: not even one sample
  std::vector<std::int64_t> batches;  // by job; empty: there is none
  double share = 0;                   // of the solo batch, of the job that has least
  double unplanned_share = 0;         // ... without plans
  double ceiling = 0;  // the share of a job's room that the state of all leaves: (C - sum of P) / (C - P), the least
  Mix mix;             // at these batches

  bool found() const { return !batches.empty(); }
};

// Jobs of one model get the same batch; in a mix of several, each gets the same share of its largest batch alone. It
// fits, is no slower than one after the other, and groups of different jobs overlap. `models`: by job.
Result<CommonBatch> FindCommonBatch(const std::vector<std::string>& models, const TrainingAt& at,
                                    const CommonBatchOptions& options);

// The largest batch of one job alone.
Result<std::int64_t> FindSoloBatch(std::size_t job, const TrainingAt& at, const CommonBatchOptions& options);

}  // namespace ebbtide::share
