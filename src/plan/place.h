// Addresses for a schedule: every stay and every workspace gets its place in one block of device memory.
#pragma once

#include <functional>

#include "base/deadline.h"
#include "sim/schedule.h"
#include "sim/workload.h"

namespace ebbtide::plan {

// Gives the schedule addresses, the same each time, and returns its height: one past the highest of them. A packing no
// higher than `height_limit` is taken as it is; a lower one is not looked for. Where none is found, the height is above
// the limit. `evaluations`: of the search for it; 0: as many as the packer thinks fit. Once `cancelled` says so, it
// returns soon and the addresses mean nothing. Behind the deadline the first packing that was found is taken.
Bytes Place(const sim::Workload& workload, sim::Schedule& schedule, Bytes height_limit,
            const std::function<bool()>& cancelled = {}, const Deadline& deadline = {}, std::int64_t evaluations = 0);

// The same, with so short a search that it can be asked of many schedules.
Bytes PlaceQuickly(const sim::Workload& workload, sim::Schedule& schedule, Bytes height_limit,
                   const std::function<bool()>& cancelled, const Deadline& deadline);

}  // namespace ebbtide::plan
