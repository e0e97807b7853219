// Flags of the verbs that place storages: the budget, the GPU and its link to the host, what may be done.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/common_flags.h"
#include "device/profile.h"
#include "plan/problem.h"
#include "sim/workload.h"

namespace ebbtide::cli {

struct PlanFlags {
  std::string budget;  // "8GiB", "60%"; empty: what the GPU has beside its context
  std::string gpu = "a100-40gb";
  std::string link;         // "12GB/s"; empty: the GPU's own
  std::string host_memory;  // empty: as much as it takes
  bool no_swap = false;
  bool swap_state = false;
  bool no_recompute = false;
};

void AddGpuFlags(CLI::App& verb, PlanFlags& flags);
void AddPlanFlags(CLI::App& verb, PlanFlags& flags);

// Tensors of a framework begin at multiples of 512 bytes; steps that others have measured are taken byte by byte.
Bytes AlignmentOf(const TrainingGraph& graph);
// --link, or the GPU's.
Result<sim::Link> LinkOf(const PlanFlags& flags, const DeviceProfile& gpu);

// What can be wrong with the flags, before there is a graph.
Status CheckPlanFlags(const PlanFlags& flags);

// What planning begins with.
struct PlanningTask {
  TrainingGraph graph;
  DeviceProfile gpu;
  sim::Workload workload;
  sim::Link link;
  plan::Limits limits;
};
// On the heap: a problem refers to its workload.
Result<std::unique_ptr<PlanningTask>> MakeTask(const PlanFlags& flags, TrainingGraph graph);

}  // namespace ebbtide::cli
