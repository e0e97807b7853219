// How long each op of a step takes where it is, between the ops before and after it.
#pragma once

#include <functional>
#include <vector>

#include "run/engine/step_execution.h"

namespace ebbtide::run {

struct OpMeasurementOptions {
  int runs = 3;                       // steps that are timed, after one that is not
  bool one_thread = false;            // ops run on the calling thread alone, and its own time counts
  std::function<bool()> interrupted;  // asked between ops: whether to give up
};

// Runs whole steps on made-up contents, before state is put into the pool: of each op the median of its times.
// The random state is left alone. No step may be midway (half_steps.h).
tl::expected<IdVector<OpId, Nanos>, Failure> MeasureOps(StepExecution& execution, const OpMeasurementOptions& options);

}  // namespace ebbtide::run
