#include "share/rehearsal.h"

#include <algorithm>
#include <numeric>

#include "device/op_time.h"
#include "share/mooring.h"
#include "share/pipeline_gate.h"
#include "share/simulate.h"

namespace ebbtide::share {
namespace {

std::shared_ptr<const Training> TrainingOf(const PlannedStep& step, const RehearsalOptions& options) {
  auto out = std::make_shared<Training>();
  out->model = step.graph.name;
  out->weight = step.weight;
  out->priority = step.priority;
  out->workload = TimedWorkload(step.graph, step.plan.alignment);
  for (std::size_t i = 0; i < step.graph.ops.size(); ++i) {
    const GpuUse use = options.gpu ? UseOf(step.graph, step.graph.ops[i], *options.gpu) : GpuUse{options.share, 0};
    out->share.push_back(use.share);
    out->launch.push_back(std::min(use.launch, out->workload.time[i]));
  }
  return out;
}

}  // namespace

Result<Rehearsal> Rehearse(const std::vector<PlannedStep>& steps, const RehearsalOptions& options) {
  std::vector<Job> jobs;
  for (const PlannedStep& step : steps) {
    jobs.push_back(MakeJob(TrainingOf(step, options), &step.plan.schedule, options.enough, options.cut, options.link));
  }
  std::vector<int> lanes(jobs.size(), 0);
  if (!options.one_lane) std::iota(lanes.begin(), lanes.end(), 0);
  EBB_ASSIGN_OR_RETURN(PipelineGate gate, PipelineGate::Make(jobs, lanes, options.pipeline));
  const Together together = RunTogether(jobs, gate, {.link = options.link});
  if (together.stuck) return Fail("{} steps in one pool: none can go on", steps.size());
  return Rehearsal{.round = together.round,
                   .overlap = static_cast<double>(together.overlapped) /
                              static_cast<double>(std::max<std::int64_t>(together.group_runs, 1))};
}

}  // namespace ebbtide::share
