// Adds the flags of planning, and turns them into a Request.
#include "cli/plan_flags.h"

namespace ebbtide::cli {
namespace {

// An empty value, as of a shell variable that is not set, is no default.
std::string CheckGiven(const std::string& text) { return text.empty() ? "expected a value, found nothing" : ""; }

}  // namespace

Result<Link> LinkOf(const PlanFlags& flags, const DeviceProfile& gpu) {
  EBB_ASSIGN_OR_RETURN(const double bandwidth, jobs::ParseLink(flags.link));
  return jobs::LinkOf(gpu, bandwidth);
}

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
  verb.add_flag("--reorder", flags.reorder, "The order of ops may change where that gives the same bits")
      ->disable_flag_override();
}

Result<jobs::PlanRequest> RequestOf(const PlanFlags& flags) {
  jobs::PlanRequest request;
  EBB_ASSIGN_OR_RETURN(request.gpu, FindProfile(flags.gpu));
  EBB_ASSIGN_OR_RETURN(request.bandwidth, jobs::ParseLink(flags.link));
  EBB_ASSIGN_OR_RETURN(request.budget, jobs::ParseBudget(flags.budget));
  EBB_ASSIGN_OR_RETURN(request.host_memory, jobs::ParseHostMemory(flags.host_memory));
  request.may_swap = !flags.no_swap;
  request.may_move_state = flags.swap_state;
  request.may_recompute = !flags.no_recompute;
  request.may_reorder = flags.reorder;
  return request;
}

}  // namespace ebbtide::cli
