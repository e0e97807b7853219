#include "cli/plan_flags.h"

#include <charconv>

#include "device/op_time.h"

namespace ebbtide::cli {
namespace {

Result<double> ParsePercent(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size() - 1, value);
  if (error != std::errc() || end != text.data() + text.size() - 1 || !(value > 0 && value <= 1000)) {
    return Fail("--budget {}: expected a percentage of the plain peak, above 0%", text);
  }
  return value;
}

Result<Bytes> BudgetOf(const PlanFlags& flags, const PlanningTask& task) {
  const Bytes capacity = task.gpu.memory - task.gpu.context;
  if (flags.budget.empty()) return capacity;
  if (flags.budget.ends_with('%')) {
    EBB_ASSIGN_OR_RETURN(const double percent, ParsePercent(flags.budget));
    return static_cast<Bytes>(static_cast<double>(sim::PlainPeak(task.workload)) * percent / 100);
  }
  const Result<Bytes> bytes = ParseBytes(flags.budget);
  if (!bytes) return Fail("--budget {}: {}", flags.budget, bytes.error().message);
  if (*bytes <= 0) return Fail("--budget {}: expected more than nothing", flags.budget);
  if (*bytes > kTooLarge) return Fail("--budget {}: expected less than {}", flags.budget, FormatBytes(kTooLarge));
  return *bytes;
}

Result<sim::Link> LinkOf(const PlanFlags& flags, const DeviceProfile& gpu) {
  sim::Link link{.to_device = gpu.host_to_device_bandwidth, .to_host = gpu.device_to_host_bandwidth, .latency = gpu.copy_latency};
  if (flags.link.empty()) return link;
  const std::string text = flags.link.ends_with("/s") ? flags.link.substr(0, flags.link.size() - 2) : flags.link;
  const Result<Bytes> bandwidth = ParseBytes(text);
  if (!bandwidth || !flags.link.ends_with("/s") || *bandwidth <= 0) {
    return Fail("--link {}: expected bytes per second, as 12GB/s", flags.link);
  }
  link.to_device = link.to_host = static_cast<double>(*bandwidth);
  return link;
}

}  // namespace

Bytes AlignmentOf(const TrainingGraph& graph) { return graph.meta.contains("framework") ? 512 : 1; }

void AddGpuFlags(CLI::App& verb, PlanFlags& flags) {
  verb.add_option("--gpu", flags.gpu, "Whose speed counts: a name that `ebbtide gpus` lists, or a profile of your own (default a100-40gb)")
      ->type_name("NAME|FILE");
  verb.add_option("--link", flags.link, "Speed of copies each way, as 12GB/s (default: the GPU's)")->type_name("BYTES/s");
}

void AddPlanFlags(CLI::App& verb, PlanFlags& flags) {
  verb.add_option("--budget", flags.budget,
                  "Device memory for storages and workspaces, as 8GiB, or a share of the plain peak, as 60% (default: what "
                  "the GPU has beside its context)")
      ->type_name("BYTES|%");
  AddGpuFlags(verb, flags);
  verb.add_option("--host-memory", flags.host_memory, "Pinned host memory for copies (default: as much as it takes)")->type_name("BYTES");
  verb.add_flag("--no-swap", flags.no_swap, "Copy nothing to the host");
  verb.add_flag("--no-recompute", flags.no_recompute, "Compute nothing twice");
}

Result<std::unique_ptr<PlanningTask>> MakeTask(const PlanFlags& flags, TrainingGraph graph) {
  auto task = std::make_unique<PlanningTask>();
  EBB_ASSIGN_OR_RETURN(task->gpu, FindProfile(flags.gpu));
  EBB_ASSIGN_OR_RETURN(task->link, LinkOf(flags, task->gpu));
  task->workload = sim::MakeWorkload(graph, OpTimes(graph, task->gpu), {.alignment = AlignmentOf(graph)});
  EBB_ASSIGN_OR_RETURN(task->limits.budget, BudgetOf(flags, *task));
  if (!flags.host_memory.empty()) {
    const Result<Bytes> host = ParseBytes(flags.host_memory);
    if (!host) return Fail("--host-memory {}: {}", flags.host_memory, host.error().message);
    task->limits.host = *host;
  }
  task->limits.may_swap = !flags.no_swap;
  task->limits.may_recompute = !flags.no_recompute;
  task->graph = std::move(graph);
  return task;
}

}  // namespace ebbtide::cli
