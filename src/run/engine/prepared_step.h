// A plan made ready for execution: what stays as it is from iteration to iteration, and where in the pool it lies.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "plan/plan.h"
#include "run/device/device.h"
#include "run/engine/host_slots.h"
#include "run/engine/op_runner.h"
#include "run/engine/step_memory.h"
#include "run/engine/step_region.h"
#include "run/engine/turns.h"

namespace ebbtide::run {

class PreparedStep {
 public:
  // The plan is valid for the graph. `runner` must outlive this. Fails where the pool is too small.
  static Result<std::unique_ptr<PreparedStep>> Make(TrainingGraph graph, plan::Plan plan,
                                                    std::shared_ptr<Device> device, OpRunner& runner);
  PreparedStep(const PreparedStep&) = delete;
  PreparedStep& operator=(const PreparedStep&) = delete;

  const TrainingGraph& graph() const { return graph_; }
  const plan::Plan& plan() const { return plan_; }
  const sim::Workload& workload() const { return workload_; }
  const std::shared_ptr<Device>& shared_device() const { return device_; }
  Device& device() const { return *device_; }
  OpRunner& runner() const { return runner_; }
  const HostSlots& host() const { return host_; }
  // Of memory that ops are given.
  Bytes alignment() const { return std::min(plan_.alignment, device_->alignment()); }
  // In which of its requests for memory the storages that an op makes come. See step_memory.h.
  IdVector<OpId, Requests>& requests() { return requests_; }

  // Where the plan would lie in the region. Fails where it does not fit.
  Result<PlacedSchedule> Place(const StepRegion& region) const {
    return PlaceAt(graph_, workload_, plan_.schedule, region);
  }
  // From now on the step lies in the region, as Place said. No iteration runs.
  void MoveTo(StepRegion region, PlacedSchedule placed);
  // The iteration that begins lies in the lane, and at the end of it, that it was given. On failure nothing may run.
  Status PlaceAtTurn(const Turns::Turn& turn);
  const StepRegion& region() const { return region_; }
  // At the addresses of the pool where the step lies now.
  const sim::Schedule& schedule() const { return now_->schedule; }
  const Program& program() const { return now_->program; }

 private:
  PreparedStep(TrainingGraph graph, plan::Plan plan, std::shared_ptr<Device> device, OpRunner& runner);
  Status Prepare();

  const TrainingGraph graph_;
  const plan::Plan plan_;
  const std::shared_ptr<Device> device_;
  OpRunner& runner_;
  sim::Workload workload_;
  StepRegion region_;
  PlacedSchedule placed_[2];  // from the bottom up, and from the top down, where iterations were last
  const PlacedSchedule* now_ = &placed_[0];
  HostSlots host_;
  IdVector<OpId, Requests> requests_;
};

}  // namespace ebbtide::run
