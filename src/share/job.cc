#include "share/job.h"

#include <algorithm>

#include "device/op_time.h"

namespace ebbtide::share {

std::shared_ptr<const Training> MakeTraining(std::string model, std::int64_t batch, TrainingGraph graph,
                                             const DeviceProfile& gpu, Bytes alignment, std::int64_t weight,
                                             int priority) {
  auto out = std::make_shared<Training>();
  out->model = std::move(model);
  out->batch = batch;
  out->weight = weight;
  out->priority = priority;
  out->workload = sim::MakeWorkload(graph, OpTimes(graph, gpu), {.alignment = alignment});
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const GpuUse use = UseOf(graph, graph.ops[i], gpu);
    out->share.push_back(use.share);
    out->launch.push_back(std::min(use.launch, out->workload.time[i]));
  }
  out->graph = std::move(graph);
  return out;
}

StepProfile ProfileOf(const Job& job) {
  const Placement& placement = job.placement;
  StepProfile out{.time = {}, .height = placement.heights, .after = placement.after, .crossing = placement.crossing};
  for (const sim::Index op : placement.schedule.steps) out.time.push_back(job.training->workload.time[op]);
  return out;
}

Job MakeJob(std::shared_ptr<const Training> training, const sim::Schedule* schedule, Bytes enough,
            const CutOptions& cut, const sim::Link& link) {
  Job job;
  job.training = std::move(training);
  const sim::Workload& workload = job.training->workload;
  job.placement = PlaceInLane(workload, schedule != nullptr ? *schedule : PlainSchedule(workload), enough);
  job.cut = CutGroups(ProfileOf(job), cut);
  job.alone = sim::PlainTime(workload);
  job.planned = schedule != nullptr;
  job.planned_time = job.planned ? sim::Simulate(workload, *schedule, link).time : job.alone;
  return job;
}

JobShape ShapeOf(const Job& job, int lane) {
  JobShape shape{.name = job.training->model,
                 .persistent = job.placement.state,
                 .groups = {},
                 .weight = job.training->weight,
                 .priority = job.training->priority,
                 .lane = lane};
  for (const NodeGroup& group : job.cut.groups) shape.groups.push_back({group.peak, group.after});
  return shape;
}

}  // namespace ebbtide::share
