// A step from its first op to its last in one call.
#pragma once

#include "run/engine/step_execution.h"
#include "run/engine/step_report.h"

namespace ebbtide::run {

// Waits for its turn first, if the call has turns. A failure before the update: nothing has changed. One after the
// update has begun says so. No step may be midway (half_steps.h).
tl::expected<StepReport, Failure> RunWholeStep(StepExecution& execution, const StepCall& call);

}  // namespace ebbtide::run
