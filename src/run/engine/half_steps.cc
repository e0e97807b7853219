// Forward up to the program's middle, backward from there on.
#include "run/engine/half_steps.h"

#include "run/engine/failures.h"

namespace ebbtide::run {

RunStatus HalfSteps::Forward(const StepCall& call) {
  Abandon();
  execution_.shared().BeginAlone();
  execution_.Start();
  RunStatus ran = WithHostMemory([&]() -> RunStatus {
    EBB_RUN(execution_.MoveIn(call));
    return execution_.Walk(call, StepId(0), execution_.step().program().middle);
  });
  if (!ran) {
    Device& device = execution_.step().device();
    device.Drain();
    execution_.Undo();
    device.Drain();
    execution_.EndAll();
  }
  execution_.places().LeaveOutside(call);
  midway_ = ran.has_value();
  execution_.recorder().report().time = execution_.recorder().Elapsed();
  return ran;
}

tl::expected<StepReport, Failure> HalfSteps::Backward(const StepCall& call) {
  if (!midway_) return Failed(Failure::Kind::kOther, "backward without a forward");
  const Nanos begin = Now();
  const Program& program = execution_.step().program();
  execution_.places().EnterOutside(call);
  RunStatus ran = WithHostMemory([&]() -> RunStatus {
    EBB_RUN(execution_.Walk(call, program.middle, program.instructions.end_id()));
    return execution_.Finish(call);
  });
  Abandon();
  execution_.places().LeaveOutside(call);
  if (!ran) return tl::unexpected<Failure>(std::move(ran).error());
  execution_.recorder().report().time += Now() - begin;
  return execution_.recorder().Finish();
}

void HalfSteps::Abandon() {
  if (!midway_) return;
  midway_ = false;
  execution_.step().device().Drain();
  execution_.EndAll();
}

}  // namespace ebbtide::run
