#include "cli/fit_plan.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/plan_flags.h"
#include "device/op_time.h"
#include "report/text.h"

namespace ebbtide::cli {
namespace {

plan::StepAt StepsOf(const AnyBatchModel& model, const DeviceProfile& gpu) {
  return [&](std::int64_t batch) -> Result<std::unique_ptr<plan::BatchStep>> {
    auto step = std::make_unique<plan::BatchStep>();
    EBB_ASSIGN_OR_RETURN(step->graph, model.At(batch));
    step->workload = sim::MakeWorkload(step->graph, OpTimes(step->graph, gpu), {.alignment = AlignmentOf(step->graph)});
    return step;
  };
}

// One write for each line: several threads may write at a time.
void ShowProgress(const std::string& gpu, std::int64_t tried, std::int64_t fits, std::int64_t fails) {
  const std::string range = fails > 0 ? fmt::format("{} to {}", fits, fails - 1) : fmt::format("{} or more", fits);
  const std::string line =
      fmt::format("\r\x1b[K{}: planned batch {}, the largest is {}", report::Printable(gpu), tried, range);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

Result<report::FitWithPlan> FitWithPlan(const AnyBatchModel& model, const DeviceProfile& gpu,
                                        const FitPlanOptions& options) {
  const plan::StepAt steps = StepsOf(model, gpu);
  plan::BatchOptions search;
  search.policy = options.policy;
  search.slowdown = options.slowdown;
  search.link = {
      .to_device = gpu.host_to_device_bandwidth, .to_host = gpu.device_to_host_bandwidth, .latency = gpu.copy_latency};
  search.limits.budget = gpu.memory - gpu.context;
  search.search.seed = options.seed;
  search.search.threads = options.threads;
  if (options.shows_progress) {
    search.progress = [&](std::int64_t tried, std::int64_t fits, std::int64_t fails) {
      ShowProgress(gpu.name, tried, fits, fails);
    };
  }
  EBB_ASSIGN_OR_RETURN(plan::LargestBatch found, plan::FindLargestBatch(steps, search));
  plan::BatchOptions keeping = search;
  EBB_ASSIGN_OR_RETURN(keeping.policy, plan::FindPolicy("none"));
  keeping.progress = nullptr;
  EBB_ASSIGN_OR_RETURN(const plan::LargestBatch kept, plan::FindLargestBatch(steps, keeping));
  if (options.shows_progress) std::fputs("\r\x1b[K", stderr);
  report::FitWithPlan out{.budget = search.limits.budget,
                          .max_batch = found.batch,
                          .max_batch_kept = kept.batch,
                          .kept_time = kept.plan ? kept.plan->time : 0,
                          .obstacle = found.obstacle,
                          .none_from = found.none_from};
  if (found.plan) {
    out.time = found.plan->time;
    out.plain_time = found.plan->plain_time;
    out.peak = found.plan->peak;
  }
  return out;
}

}  // namespace ebbtide::cli
