// `fit --with-plan`: the largest batch that a plan makes fit a GPU.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/batch_search.h"
#include "device/profile.h"
#include "plan/largest_batch.h"
#include "report/fit.h"

namespace ebbtide::cli {

struct FitPlanOptions {
  const plan::Policy* policy = nullptr;
  double slowdown = 2;
  std::uint64_t seed = 0;
  int threads = 1;
  bool shows_progress = false;  // on standard error, a line that is written over
};

// May be called from several threads.
Result<report::FitWithPlan> FitWithPlan(const AnyBatchModel& model, const DeviceProfile& gpu,
                                        const FitPlanOptions& options);

}  // namespace ebbtide::cli
