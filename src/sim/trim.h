// Shorter stays without a change in time: addresses are easier to find for them.
#pragma once

#include "sim/schedule.h"
#include "sim/workload.h"

namespace ebbtide::sim {

// A stay that is dropped or freed ends behind the last step that needs it; one that is copied to the host ends at the
// first boundary that compute reaches after the copy is done; one that is copied to the device begins as late as does
// not delay the step that needs it or the copies behind it.
void Trim(const Workload& workload, const Link& link, Schedule& schedule);

// The schedule with stays as short as they can be for the same time.
Schedule Trimmed(const Workload& workload, const Link& link, Schedule schedule);

}  // namespace ebbtide::sim
