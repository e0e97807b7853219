// Checks a plan, takes the host's memory for it, and places its schedule in the pool.
#include "run/engine/prepared_step.h"

#include <utility>

#include "sim/simulate.h"

namespace ebbtide::run {

PreparedStep::PreparedStep(TrainingGraph graph, plan::Plan plan, std::shared_ptr<Device> device, OpRunner& runner)
    : graph_(std::move(graph)), plan_(std::move(plan)), device_(std::move(device)), runner_(runner) {}

Result<std::unique_ptr<PreparedStep>> PreparedStep::Make(TrainingGraph graph, plan::Plan plan,
                                                         std::shared_ptr<Device> device, OpRunner& runner) {
  std::unique_ptr<PreparedStep> out(new PreparedStep(std::move(graph), std::move(plan), std::move(device), runner));
  EBB_RETURN_IF_ERROR(out->Prepare());
  return out;
}

Status PreparedStep::Prepare() {
  if (!plan_.order.empty()) return Fail("the plan has an order of its own; expected what plan::InItsOrder makes of it");
  EBB_RETURN_IF_ERROR(plan::CheckPlan(plan_, graph_));
  std::vector<Nanos> times;
  for (const Op& op : graph_.ops) times.push_back(op.time);
  workload_ = sim::MakeWorkload(graph_, std::move(times), {.alignment = plan_.alignment});
  const Bytes height = sim::Height(workload_, plan_.schedule);
  if (height > device_->capacity()) {
    return Fail("the plan needs {} bytes ({}), the pool has {} ({})", height, FormatBytes(height), device_->capacity(),
                FormatBytes(device_->capacity()));
  }
  EBB_ASSIGN_OR_RETURN(placed_[0], Place(region_));
  for (const sim::Stay& stay : plan_.schedule.stays) {
    if (graph_.storage(stay.storage).outside && stay.end != sim::End::kStays)
      return Fail("the plan moves storage {}, which lies outside the pool; expected it to stay there",
                  stay.storage.value);
  }
  EBB_ASSIGN_OR_RETURN(host_, HostSlots::Make(graph_, workload_, plan_.schedule, program(), *device_));
  requests_.resize(graph_.ops.size());
  return {};
}

void PreparedStep::MoveTo(StepRegion region, PlacedSchedule placed) {
  if (region.groups.empty()) region.groups.push_back(StepId(0));
  region_ = std::move(region);
  for (PlacedSchedule& each : placed_) each = {};
  placed_[region_.from_top] = std::move(placed);
  now_ = &placed_[region_.from_top];
}

Status PreparedStep::PlaceAtTurn(const Turns::Turn& turn) {
  region_.lane = turn.lane;
  region_.lane_bytes = turn.lane_bytes;
  region_.from_top = turn.from_top;
  PlacedSchedule& placed = placed_[region_.from_top];
  if (placed.anchor != region_.anchor()) {
    EBB_ASSIGN_OR_RETURN(placed, Place(region_));
  }
  now_ = &placed;
  return {};
}

}  // namespace ebbtide::run
