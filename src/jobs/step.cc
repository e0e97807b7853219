// Times the ops of a graph.
#include "jobs/step.h"

#include <algorithm>

#include "device/op_time.h"
#include "graph/collective.h"
#include "parallel/execution_order.h"

namespace ebbtide::jobs {

Step MakeStep(std::shared_ptr<const TrainingGraph> graph, const DeviceProfile& gpu, Bytes alignment) {
  if (std::ranges::any_of(graph->ops, [](const Op& op) { return StreamOf(op) == Stream::kGather; }))
    graph = std::make_shared<const TrainingGraph>(parallel::InExecutionOrder(*graph));
  auto workload = std::make_shared<const sim::Workload>(TimedWorkload(*graph, gpu, alignment));
  return {.graph = std::move(graph), .workload = std::move(workload)};
}

sim::Workload TimedWorkload(const TrainingGraph& graph, const DeviceProfile& gpu, Bytes alignment) {
  return sim::MakeWorkload(graph, OpTimes(graph, gpu),
                           {.alignment = alignment == 0 ? AlignmentOf(graph.framework) : alignment,
                            .exchanges_use_host_link = gpu.link_bandwidth == 0});
}

Nanos StepTime(TrainingGraph graph, const DeviceProfile& gpu) {
  return sim::PlainTime(TimedWorkload(parallel::InExecutionOrder(std::move(graph)), gpu));
}

}  // namespace ebbtide::jobs
