// Measures ops one by one on made-up data: how long each takes, how much memory it needs meanwhile, and when it asks
// for the storages that it makes.
#pragma once

#include <memory>
#include <vector>

#include "run/device/device.h"
#include "run/engine/kernels.h"
#include "run/engine/step_memory.h"

namespace ebbtide::run {

struct OpProfile {
  Nanos time = 0;
  Bytes workspace = 0;
  Requests requests;        // see step_memory.h
  std::vector<Bytes> made;  // bytes of the storages that it makes, in the order of sim::Workload::births
};

struct ProfileOptions {
  int runs = 5;                   // that are timed, at most; the median counts
  Nanos time_limit = 40'000'000;  // no more runs once they took this long together
  bool one_thread = false;        // ops run on the calling thread alone: its own time counts
};

class Profiler {
 public:
  // On the CPU, takes address space for the largest op several times over; memory is taken as ops use it.
  static Result<std::unique_ptr<Profiler>> Make(const EbbtideKernels* library, TrainingGraph graph);
  // In the pool of a device, `name` as torch calls it: ops that need more than it has are not measured.
  static Result<std::unique_ptr<Profiler>> Make(const EbbtideKernels* library, TrainingGraph graph,
                                                std::shared_ptr<Device> device, const std::string& name);

  // A failure: the op refuses made-up data, or the pool is too small for it.
  tl::expected<OpProfile, Failure> Profile(OpId op, const ProfileOptions& options = {});

 private:
  Profiler(TrainingGraph graph, std::shared_ptr<Device> device, std::unique_ptr<Kernels> kernels);
  Bytes PlaceInputs(const Op& op);

  const TrainingGraph graph_;
  std::vector<double> scalars_;
  const std::shared_ptr<Device> device_;
  const std::unique_ptr<Kernels> kernels_;
};

}  // namespace ebbtide::run
