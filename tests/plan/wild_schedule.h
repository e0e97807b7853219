// Schedules that no planner would make: storages leave and come back at random, whether memory is short or not.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/problem.h"

namespace ebbtide::plan {

// Without addresses, and within the problem's limits but for its budget. Nothing: what left could not be made again.
// `state_may_leave`: also what is there before the step, which planners keep. Equal seeds give equal schedules.
std::optional<sim::Schedule> WildSchedule(const Problem& problem, std::uint64_t seed, bool state_may_leave);

}  // namespace ebbtide::plan
