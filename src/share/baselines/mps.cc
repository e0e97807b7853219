// A process each under MPS: kernels of all run together. Each process has a context, loaded code, and PyTorch's caching
// allocator, whose reserved memory no other process can use; `estimate` says how much that is.
#include "estimate/estimate.h"
#include "share/baselines/baseline.h"

namespace ebbtide::share {

BaselineResult RunMps(const BaselineInput& input) {
  BaselineResult out{.name = "mps", .note = {}, .together = {}};
  const DeviceProfile& gpu = input.options.gpu;
  for (const Job& job : input.jobs) {
    if (input.options.stop && input.options.stop()) return out;
    estimate::Options options;
    options.gpu = gpu;
    out.memory += estimate::EstimateTraining(job.training->graph, options).total();
  }
  // The capacity of a mix has one context taken off already.
  const Bytes device = input.options.capacity + gpu.context;
  if (out.memory > device) {
    out.note =
        fmt::format("out of memory: pools and contexts take {} of {}", FormatBytes(out.memory), FormatBytes(device));
    return out;
  }
  out.fits = true;
  OpenScheduler scheduler;
  out.together = RunTogether(input.jobs, scheduler, input.options.together);
  return out;
}

}  // namespace ebbtide::share
