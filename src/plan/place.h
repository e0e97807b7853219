// Addresses for a schedule: every stay and every workspace gets its place in one block of device memory.
#pragma once

#include "sim/schedule.h"
#include "sim/workload.h"

namespace ebbtide::plan {

// One past the highest address. Deterministic. `enough`: no lower height is looked for.
Bytes Place(const sim::Workload& workload, sim::Schedule& schedule, Bytes enough);

}  // namespace ebbtide::plan
