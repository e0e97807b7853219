// Ids as literals, for tests that name ops, storages, steps and stays by their numbers: 3_op, 0_storage, 2_step,
// 1_stay.
#pragma once

#include "base/ids.h"
#include "sim/schedule.h"

namespace ebbtide {

constexpr OpId operator""_op(unsigned long long number) { return OpId(number); }
constexpr StorageId operator""_storage(unsigned long long number) { return StorageId(number); }
constexpr sim::StepId operator""_step(unsigned long long number) { return sim::StepId(number); }
constexpr sim::StayId operator""_stay(unsigned long long number) { return sim::StayId(number); }

}  // namespace ebbtide
