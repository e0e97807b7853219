// Makes trainings and jobs of graphs and plans.
#include "share/scheduler/job.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "device/op_time.h"

namespace ebbtide::share {
namespace {

template <class UseOfOp>
std::shared_ptr<const Training> Assemble(TrainingOptions options, TrainingGraph graph, sim::Workload workload,
                                         const UseOfOp& use_of) {
  auto out = std::make_shared<Training>();
  static_cast<TrainingOptions&>(*out) = std::move(options);
  out->workload = std::move(workload);
  for (const OpId op : out->workload.op_ids()) {
    const GpuUse use = use_of(graph, graph.op(op));
    out->share.push_back(use.share);
    out->launch.push_back(std::min(use.launch, out->workload.time[op]));
  }
  out->graph = std::move(graph);
  return out;
}

}  // namespace

std::shared_ptr<const Training> MakeTraining(TrainingOptions options, TrainingGraph graph, const DeviceProfile& gpu) {
  sim::Workload workload = sim::MakeWorkload(graph, OpTimes(graph, gpu), {.alignment = options.alignment});
  return Assemble(std::move(options), std::move(graph), std::move(workload),
                  [&](const TrainingGraph& of, const Op& op) { return UseOf(of, op, gpu); });
}

std::shared_ptr<const Training> MakeMeasuredTraining(TrainingOptions options, TrainingGraph graph,
                                                     const DeviceUse& use) {
  sim::Workload workload = MeasuredWorkload(graph, options.alignment);
  return Assemble(std::move(options), std::move(graph), std::move(workload),
                  [&](const TrainingGraph& of, const Op& op) {
                    return use.gpu ? UseOf(of, op, *use.gpu) : GpuUse{use.share, 0};
                  });
}

sim::Workload MeasuredWorkload(const TrainingGraph& graph, Bytes alignment) {
  std::vector<Nanos> times;
  for (const Op& op : graph.ops) times.push_back(std::max<Nanos>(op.time, 1));
  return sim::MakeWorkload(graph, std::move(times), {.alignment = alignment});
}

StepProfile ProfileOf(const sim::Workload& workload, const Placement& placement) {
  StepProfile out{.time = {}, .height = placement.heights, .after = placement.after, .crossing = placement.crossing};
  for (const OpId op : placement.schedule.steps) out.time.push_back(workload.time[op]);
  return out;
}

Job MakeJob(std::shared_ptr<const Training> training, std::shared_ptr<const plan::Plan> plan, Bytes height_limit,
            const CutOptions& cut, const Link& link) {
  Job job;
  job.training = std::move(training);
  job.plan = std::move(plan);
  job.height_limit = height_limit;
  const sim::Workload& workload = job.training->workload;
  job.placement = PlaceInLane(workload, job.plan ? job.plan->schedule : PlainSchedule(workload), height_limit);
  job.cut = CutGroups(ProfileOf(workload, job.placement), cut);
  job.alone = sim::PlainTime(workload);
  job.planned_time = job.plan ? sim::Simulate(workload, job.plan->schedule, link).time : job.alone;
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

std::vector<std::size_t> JoinOrder(const std::vector<Job>& jobs, const std::vector<int>& lanes) {
  std::vector<std::size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::tuple(std::ranges::count(lanes, lanes[i]), lanes[i], -jobs[i].placement.height, i);
  });
  std::set<int> open;
  std::vector<std::size_t> out, later;
  for (const std::size_t i : order) (open.insert(lanes[i]).second ? out : later).push_back(i);
  out.insert(out.end(), later.begin(), later.end());
  return out;
}

}  // namespace ebbtide::share
