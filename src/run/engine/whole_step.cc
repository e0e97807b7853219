// The course of a step that runs in one call, and what is left of one that fails.
#include "run/engine/whole_step.h"

#include <tuple>

#include "run/engine/failures.h"

namespace ebbtide::run {

tl::expected<StepReport, Failure> RunWholeStep(StepExecution& execution, const StepCall& call) {
  PreparedStep& step = execution.step();
  StepRecorder& recorder = execution.recorder();
  const Nanos before = Now();
  execution.shared().BeginAlone();
  if (call.turns) EBB_RUN(execution.shared().Begin(*call.turns));
  const Nanos waited = Now() - before;
  execution.Start();
  recorder.report().wait_for_turn = waited;
  RunStatus ran = WithHostMemory([&]() -> RunStatus {
    EBB_RUN(execution.MoveIn(call));
    EBB_RUN(execution.Walk(call, StepId(0), step.program().instructions.end_id()));
    return execution.Finish(call);
  });
  if (!ran) {
    step.device().Drain();
    if (execution.update_begun()) {
      std::ignore = execution.places().BringHome();
      ran.error().message += "; the update had begun, so parameters and optimizer state are partly new";
    } else {
      execution.Undo();
    }
    step.device().Drain();
  }
  execution.places().LeaveOutside(call);
  execution.EndAll();
  execution.shared().End();
  if (!ran) return tl::unexpected<Failure>(std::move(ran).error());
  recorder.report().time = recorder.Elapsed();
  return recorder.Finish();
}

}  // namespace ebbtide::run
