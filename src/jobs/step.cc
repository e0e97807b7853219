// Times the ops of a graph.
#include "jobs/step.h"

#include "device/op_time.h"

namespace ebbtide::jobs {

Step MakeStep(std::shared_ptr<const TrainingGraph> graph, const DeviceProfile& gpu, Bytes alignment) {
  if (alignment == 0) alignment = AlignmentOf(graph->framework);
  auto workload =
      std::make_shared<const sim::Workload>(sim::MakeWorkload(*graph, OpTimes(*graph, gpu), {.alignment = alignment}));
  return {.graph = std::move(graph), .workload = std::move(workload)};
}

}  // namespace ebbtide::jobs
