// The step in two halves, for a framework that itself decides when backward begins, as torch.compile's does. Between
// them the pool keeps what backward needs.
#pragma once

#include "run/engine/step_execution.h"
#include "run/engine/step_report.h"

namespace ebbtide::run {

class HalfSteps {
 public:
  // `execution` must outlive this.
  explicit HalfSteps(StepExecution& execution) : execution_(execution) {}

  // A half that fails ends the step: of Forward everything is undone, of Backward nothing. A step that was midway is
  // abandoned by Forward. Calls have no turns: the pool is the step's own.
  RunStatus Forward(const StepCall& call);
  tl::expected<StepReport, Failure> Backward(const StepCall& call);
  // Whether Forward has run and Backward has not.
  bool midway() const { return midway_; }
  // Forgets a step that is midway. It is not an error if there is none.
  void Abandon();

 private:
  StepExecution& execution_;
  bool midway_ = false;
};

}  // namespace ebbtide::run
