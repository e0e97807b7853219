// Executes a plan: runs its ops, moves its storages, and leaves everything as it was when a step comes to nothing.
//
// Between steps the pool holds all state (parameters, buffers, optimizer state) where the plan's iteration begins with
// it; who owns it puts it there before the first step (home) and may read and change it between steps. A step that
// fails before its update has begun is undone: state and random state are as before. In the update nothing is allocated
// but what the plan has a place for, and a copy that fails is made again; so the update ends.
//
// Several engines may share a pool, each on a device of its own (Device::Beside), in a thread of its own, in a part of
// the pool that it is given (step_region.h), when it is its turn (turns.h).
//
// Words:
//   step         an iteration of training: Step, StepCall, StepReport. Where it has a StepId ("step k", `step_time`),
//                one op's run within the iteration, as in sim/schedule.h.
//   instruction  such a numbered step with all that happens at the boundary before it (program.h).
//   group        consecutive numbered steps that a pool which is shared admits together (step_region.h, turns.h).
//   home         the address at which state (parameters, buffers, optimizer state) lies between iterations.
#pragma once

#include <memory>
#include <vector>

#include "run/engine/half_steps.h"
#include "run/engine/op_measurement.h"
#include "run/engine/prepared_step.h"
#include "run/engine/step_execution.h"
#include "run/engine/step_report.h"
#include "sim/simulate.h"

namespace ebbtide::run {

// A plan that is ready (prepared_step.h), and the three ways to execute it: whole steps (whole_step.h), steps in two
// halves (half_steps.h), and steps on made-up contents that measure ops (op_measurement.h).
class Engine {
 public:
  // The plan is valid for the graph. `runner` must outlive the engine. Fails where the pool is too small.
  static Result<std::unique_ptr<Engine>> Make(TrainingGraph graph, plan::Plan plan, std::shared_ptr<Device> device,
                                              OpRunner& runner);

  const TrainingGraph& graph() const { return step_->graph(); }
  const plan::Plan& plan() const { return step_->plan(); }
  const sim::Workload& workload() const { return step_->workload(); }
  Device& device() { return step_->device(); }
  const std::shared_ptr<Device>& shared_device() const { return step_->shared_device(); }
  // Where in the pool the step lies from now on. State is to be put there then, where home says. Fails, and has changed
  // nothing, where the plan does not fit. A step that is midway is abandoned.
  Status PlaceIn(StepRegion region);
  const StepRegion& region() const { return step_->region(); }
  // Where state is from step to step; -1 for what is not state.
  const IdVector<StorageId, Bytes>& home() const { return step_->program().home; }
  // In which of an op's requests for memory the storages that it makes come. Learnt from its first run where they
  // are not set. See step_memory.h.
  IdVector<OpId, Requests>& requests() { return step_->requests(); }
  StepMemory& memory() { return execution_.memory(); }

  // From now on whole steps capture runs of these ops as CUDA graphs, and launch those. See captured_runs.h.
  void SetCapturable(const IdVector<OpId, bool>& capturable) { execution_.SetCapturable(capturable); }

  // One step. A step that is midway is abandoned.
  tl::expected<StepReport, Failure> Step(const StepCall& call);
  // The last step that succeeded, as the simulator tells of steps, with its timeline.
  const sim::Outcome& outcome() const { return execution_.recorder().outcome(); }

  // The step in two halves. See half_steps.h.
  RunStatus Forward(const StepCall& call) { return halves_.Forward(call); }
  tl::expected<StepReport, Failure> Backward(const StepCall& call) { return halves_.Backward(call); }
  bool midway() const { return halves_.midway(); }
  void Abandon() { halves_.Abandon(); }

  // How long each op of the graph takes. See op_measurement.h.
  tl::expected<IdVector<OpId, Nanos>, Failure> MeasureOps(const OpMeasurementOptions& options);

 private:
  explicit Engine(std::unique_ptr<PreparedStep> step);

  const std::unique_ptr<PreparedStep> step_;
  StepExecution execution_;
  HalfSteps halves_;
};

}  // namespace ebbtide::run
