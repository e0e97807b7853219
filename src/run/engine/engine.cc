// One plan on one device, and the ways to execute it.
#include "run/engine/engine.h"

#include <utility>

#include "run/engine/whole_step.h"

namespace ebbtide::run {

Engine::Engine(std::unique_ptr<PreparedStep> step) : step_(std::move(step)), execution_(*step_), halves_(execution_) {}

Result<std::unique_ptr<Engine>> Engine::Make(TrainingGraph graph, plan::Plan plan, std::shared_ptr<Device> device,
                                             OpRunner& runner) {
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<PreparedStep> step,
                       PreparedStep::Make(std::move(graph), std::move(plan), std::move(device), runner));
  return std::unique_ptr<Engine>(new Engine(std::move(step)));
}

Status Engine::PlaceIn(StepRegion region) {
  EBB_ASSIGN_OR_RETURN(PlacedSchedule placed, step_->Place(region));
  Abandon();  // what is midway lies where the step has lain until now
  step_->MoveTo(std::move(region), std::move(placed));
  return {};
}

tl::expected<StepReport, Failure> Engine::Step(const StepCall& call) {
  Abandon();
  return RunWholeStep(execution_, call);
}

tl::expected<IdVector<OpId, Nanos>, Failure> Engine::MeasureOps(const OpMeasurementOptions& options) {
  Abandon();
  return run::MeasureOps(execution_, options);
}

}  // namespace ebbtide::run
