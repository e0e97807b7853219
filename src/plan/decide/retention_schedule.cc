// From decisions to the steps and stays of a schedule.
#include <algorithm>
#include <tuple>

#include "plan/decide/retention.h"

namespace ebbtide::plan {

sim::Schedule Retention::ToSchedule() const {
  using sim::StepId;
  sim::Schedule out;
  std::vector<sim::Stay> stays;
  struct Open {
    std::size_t stay = ~std::size_t{0};
    bool is_needed = false;
  };
  IdVector<StorageId, Open> open(workload_->storages());
  std::vector<bool> is_needed;
  const auto begin = [&](StorageId s, sim::Begin how) {
    const StepId k = out.steps.end_id();
    if (open[s].stay != ~std::size_t{0} && stays[open[s].stay].end == sim::End::kFree)
      stays[open[s].stay].end = sim::End::kDrop;
    open[s].stay = stays.size();
    stays.push_back({.storage = s, .from = k, .to = k.Next(), .begin = how, .end = sim::End::kFree});
    is_needed.push_back(how == sim::Begin::kPresent || how == sim::Begin::kCompute);
  };
  for (const StorageId s : workload_->storage_ids()) {
    if (workload_->IsState(s)) begin(s, sim::Begin::kPresent);
  }
  const auto step = [&](OpId op) {
    for (const StorageId s : workload_->needs[op]) {
      const std::size_t stay = open[s].stay;
      stays[stay].to = out.steps.end_id().Next();
      is_needed[stay] = true;
    }
    out.steps.push_back(op);
  };
  std::vector<std::vector<const Absence*>> ending(stages_.size()), beginning(stages_.size());
  for (const Absence& absence : absences_) {
    if (!absence.has_copy) ending[absence.to.index()].push_back(&absence);
    beginning[absence.from.index()].push_back(&absence);
  }
  std::vector<StepId> boundary;  // by stage
  for (std::size_t t = 0; t < stages_.size(); ++t) {
    boundary.push_back(out.steps.end_id());
    for (const Absence* absence : ending[t]) {
      sim::Stay& stay = stays[open[absence->storage].stay];
      is_needed[open[absence->storage].stay] = true;
      stay.end = sim::End::kCopyOut;
      // What was made again meanwhile is copied once it is whole.
      const StepId leave = boundary[absence->leave.index()];
      stay.leave = leave > stay.from ? leave : boundary.back();
      stay.to = std::max({stay.to, boundary.back(), stay.leave});
      stay.turn = absence->turn;
    }
    for (const Absence* absence : beginning[t]) begin(absence->storage, sim::Begin::kCopyIn);
    for (const RunId id : stages_[t]) {
      if (id == end_run()) continue;
      const UnitId unit = runs_[id].unit;
      if (!unit.valid()) {
        for (const StorageId s : workload_->births[OpId(t)]) begin(s, sim::Begin::kCompute);
        step(OpId(t));
        continue;
      }
      for (const StorageId s : units_->units[unit].returns) begin(s, sim::Begin::kRecompute);
      for (const Unit::Part& part : units_->units[unit].parts) {
        if (part.op < OpId(t)) step(part.op);
      }
    }
  }
  for (const StorageId s : workload_->storage_ids()) {
    if (!workload_->outlives[s] && !workload_->IsState(s)) continue;
    if (open[s].stay == ~std::size_t{0}) continue;
    sim::Stay& last = stays[open[s].stay];
    last.to = out.steps.end_id();
    last.end = sim::End::kStays;
    is_needed[open[s].stay] = true;
  }
  for (std::size_t i = 0; i < stays.size(); ++i) {
    if (is_needed[i]) out.stays.push_back(stays[i]);
  }
  std::ranges::sort(out.stays, {}, [](const sim::Stay& stay) { return std::tuple(stay.from, stay.storage, stay.to); });
  return out;
}

}  // namespace ebbtide::plan
