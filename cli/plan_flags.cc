#include "cli/plan_flags.h"

#include <charconv>

#include "device/op_time.h"

namespace ebbtide::cli {
namespace {

constexpr double kMostPercent = 1000;

// "60%", "60 %".
Result<double> ParsePercent(const std::string& text) {
  const std::string number = text.substr(0, text.find_last_not_of(" %") + 1);
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool parsed = error == std::errc() && end == number.data() + number.size() && text.find('%') + 1 == text.size();
  if (!parsed || !(value > 0 && value <= kMostPercent)) {
    return Fail("--budget {}: expected a percentage of the plain peak, above 0% and at most {}%", text, kMostPercent);
  }
  return value;
}

Result<Bytes> BudgetOf(const PlanFlags& flags, const DeviceProfile& gpu, Bytes plain_peak) {
  if (flags.budget.empty()) return gpu.memory - gpu.context;
  Bytes budget = 0;
  if (flags.budget.ends_with('%')) {
    EBB_ASSIGN_OR_RETURN(const double percent, ParsePercent(flags.budget));
    budget = static_cast<Bytes>(static_cast<double>(plain_peak) * percent / 100);
  } else {
    const Result<Bytes> bytes = ParseBytes(flags.budget);
    if (!bytes)
      return Fail("--budget {}: expected a size such as 8GiB, or a share of the plain peak such as 60%", flags.budget);
    budget = *bytes;
  }
  if (budget <= 0) return Fail("--budget {}: expected more than nothing", flags.budget);
  if (budget > kTooLarge) return Fail("--budget {}: expected less than {}", flags.budget, FormatBytes(kTooLarge));
  return budget;
}

Result<Bytes> HostMemoryOf(const PlanFlags& flags) {
  if (flags.host_memory.empty()) return plan::Limits{}.host;
  const Result<Bytes> host = ParseBytes(flags.host_memory);
  if (!host) return Fail("--host-memory {}: expected a size such as 64GiB", flags.host_memory);
  return *host;
}

// An empty value, as of a shell variable that is not set, is no default.
std::string CheckGiven(const std::string& text) { return text.empty() ? "expected a value, found nothing" : ""; }

}  // namespace

Result<sim::Link> LinkOf(const PlanFlags& flags, const DeviceProfile& gpu) {
  sim::Link link{
      .to_device = gpu.host_to_device_bandwidth, .to_host = gpu.device_to_host_bandwidth, .latency = gpu.copy_latency};
  if (flags.link.empty()) return link;
  const std::string text = flags.link.ends_with("/s") ? flags.link.substr(0, flags.link.size() - 2) : flags.link;
  const Result<Bytes> bandwidth = ParseBytes(text);
  if (!bandwidth || !flags.link.ends_with("/s") || *bandwidth <= 0) {
    return Fail("--link {}: expected bytes per second, as 12GB/s", flags.link);
  }
  link.to_device = link.to_host = static_cast<double>(*bandwidth);
  return link;
}

Bytes AlignmentOf(const TrainingGraph& graph) { return graph.meta.contains("framework") ? 512 : 1; }

void AddGpuFlags(CLI::App& verb, PlanFlags& flags) {
  verb.add_option("--gpu", flags.gpu,
                  "Whose speed counts: a name that `ebbtide gpus` lists, or a profile of your own (default a100-40gb)")
      ->type_name("NAME|FILE");
  verb.add_option("--link", flags.link, "Speed of copies each way, as 12GB/s (default: the GPU's)")
      ->type_name("BYTES/s")
      ->check(Check(CheckGiven));
}

void AddPlanFlags(CLI::App& verb, PlanFlags& flags) {
  verb.add_option(
          "--budget", flags.budget,
          "Device memory for storages and workspaces, as 8GiB, or a share of the plain peak, as 60% (default: what "
          "the GPU has beside its context)")
      ->type_name("BYTES|%")
      ->check(Check(CheckGiven));
  AddGpuFlags(verb, flags);
  verb.add_option("--host-memory", flags.host_memory, "Pinned host memory for copies (default: as much as it takes)")
      ->type_name("BYTES")
      ->check(Check(CheckGiven));
  verb.add_flag("--no-swap", flags.no_swap, "Copy nothing to the host")->disable_flag_override();
  verb.add_flag("--swap-state", flags.swap_state,
                "Also copy parameters, optimizer state, buffers and inputs to the host for a while")
      ->disable_flag_override();
  verb.add_flag("--no-recompute", flags.no_recompute, "Compute nothing twice")->disable_flag_override();
}

Status CheckPlanFlags(const PlanFlags& flags) {
  EBB_ASSIGN_OR_RETURN(const DeviceProfile gpu, FindProfile(flags.gpu));
  if (const auto link = LinkOf(flags, gpu); !link) return tl::unexpected<Error>(link.error());
  // Any share of a peak that is large enough is more than nothing.
  if (const auto budget = BudgetOf(flags, gpu, kTooLarge / 16); !budget) return tl::unexpected<Error>(budget.error());
  if (const auto host = HostMemoryOf(flags); !host) return tl::unexpected<Error>(host.error());
  return {};
}

Result<std::unique_ptr<PlanningTask>> MakeTask(const PlanFlags& flags, TrainingGraph graph) {
  auto task = std::make_unique<PlanningTask>();
  EBB_ASSIGN_OR_RETURN(task->gpu, FindProfile(flags.gpu));
  EBB_ASSIGN_OR_RETURN(task->link, LinkOf(flags, task->gpu));
  task->workload = sim::MakeWorkload(graph, OpTimes(graph, task->gpu), {.alignment = AlignmentOf(graph)});
  EBB_ASSIGN_OR_RETURN(task->limits.budget, BudgetOf(flags, task->gpu, sim::PlainPeak(task->workload)));
  EBB_ASSIGN_OR_RETURN(task->limits.host, HostMemoryOf(flags));
  task->limits.may_swap = !flags.no_swap;
  task->limits.may_move_state = flags.swap_state;
  task->limits.may_recompute = !flags.no_recompute;
  task->graph = std::move(graph);
  return task;
}

}  // namespace ebbtide::cli
