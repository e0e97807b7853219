// Random steps, limits and preferences, and the schedules that come of them.
#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <string_view>

#include "plan/policies/policy.h"
#include "plan/search/rollout.h"
#include "tests/support/random_step.h"

namespace ebbtide::plan {

// A step with limits that are often tight. The problem refers to the workload beside it.
struct Task {
  TrainingGraph graph;
  sim::Workload workload;
  Problem problem;
};
// `exchanges`: some ops run beside computation, now and then over the link to the host.
std::unique_ptr<Task> RandomTask(std::uint64_t seed, bool exchanges = false);
Preferences RandomPreferences(const sim::Workload& workload, std::mt19937_64& random);

// Places all stays and workspaces. One past the highest address.
Bytes GiveAddresses(const sim::Workload& workload, sim::Schedule& schedule);

// As many cases as a quick test can afford, or EBBTIDE_SOAK of them.
int Cases(int quick);
// How many were seen: a line on standard output with EBBTIDE_SOAK, nothing without.
void Tell(int count, std::string_view what);

}  // namespace ebbtide::plan
