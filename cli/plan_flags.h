// Flags of the verbs that place storages: the budget, the GPU and its link to the host, what may be done.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"
#include "cli/common_flags.h"
#include "device/link.h"
#include "device/profile.h"
#include "jobs/plan.h"

namespace ebbtide::cli {

struct PlanFlags {
  std::string budget;  // "8GiB", "60%"; empty: what the GPU has beside its context
  std::string gpu = "a100-40gb";
  std::string link;         // "12GB/s"; empty: the GPU's own
  std::string host_memory;  // empty: as much as it takes
  bool no_swap = false;
  bool swap_state = false;
  bool no_recompute = false;
  bool reorder = false;
};

void AddGpuFlags(CLI::App& verb, PlanFlags& flags);
void AddPlanFlags(CLI::App& verb, PlanFlags& flags);

// The link that --link names, else the GPU's own.
Result<Link> LinkOf(const PlanFlags& flags, const DeviceProfile& gpu);

// The request that the flags make. The model, and how to search, are left to the verb.
Result<jobs::PlanRequest> RequestOf(const PlanFlags& flags);

}  // namespace ebbtide::cli
