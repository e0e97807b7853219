// What happens at the boundaries of a schedule, and in which order: the simulator, the engine and the simulator of
// sharing all have it from here.
#pragma once

#include "sim/schedule.h"
#include "sim/workload.h"

namespace ebbtide::sim {

// What is by boundary is indexed by the step behind it, as schedule.h says; there is one boundary more than steps.
struct Layout {
  // By boundary: stays whose copies to the host are queued there, in the order of their turns.
  Lists<StepId, StayId> leaving;
  // By boundary: stays that end there, in the schedule's order. Those that are there when the iteration has ended
  // (End::kStays) are in none.
  Lists<StepId, StayId> ending;
  // By boundary: stays whose copies to the device are queued there, in the order in which the graph's ops next need
  // them.
  Lists<StepId, StayId> entering;
  // By step: stays whose copies to the device it is the first to need, in the order of its op's needs. A copy that no
  // step of its stay needs is in none.
  Lists<StepId, StayId> arrivals;
  IdVector<StepId, bool> again;  // whether the step runs its op again
};

// Copies of the same turn, or needed next by the same op, are in the order of their storages' numbers. The schedule's
// stays are in their order, lie within its steps, and do not overlap.
Layout MakeLayout(const Workload& workload, const Schedule& schedule);

// Which steps are recomputations.
IdVector<StepId, bool> RunsAgain(const Workload& workload, const Schedule& schedule);

}  // namespace ebbtide::sim
